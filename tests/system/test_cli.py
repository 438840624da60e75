"""Every command of `millrace` against a real server, as a user types it."""

import json
import signal
import subprocess
import threading

import pytest

import harness
from harness import wait_until

OK, FAILED, USAGE, NOT_FOUND, UNAVAILABLE = range(5)


@pytest.fixture
def cli(shared):
    """Runs a command against the shared server; returns its output and checks its exit code."""

    def run(*arguments, exit_code=OK, **options):
        done = shared.cli(*arguments, **options)
        assert done.returncode == exit_code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def local(binary):
    """The same for commands that need no server."""

    def run(*arguments, exit_code=OK, env=None, **options):
        done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=harness.PATIENCE,
                              env={**harness.clean_environment(), **(env or {})}, **options)
        assert done.returncode == exit_code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def counts(cli, queue):
    return json.loads(cli("queue", "describe", queue, "-o", "json").stdout)["counts"]


def expect_counts(accepted=0, done=0, waiting=0, leased=0, dead=0, dropped=0):
    return dict(accepted=accepted, done=done, waiting=waiting, leased=leased, dead=dead, dropped=dropped)


class Worker:
    """`millrace work` in the background."""

    def __init__(self, binary, server, queue, *arguments):
        self.process = subprocess.Popen(
            [str(binary), "work", queue, *arguments, "-o", "json", "--address", server.address],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment())

    def finish(self, exit_code=OK):
        out, err = self.process.communicate(timeout=harness.PATIENCE)
        assert self.process.returncode == exit_code, f"{out}\n{err}"
        return json.loads(out[out.index("{"):])


# Usage.

def test_every_command_has_help_with_examples(local):
    for command in ("server", "task enqueue", "task peek", "task lease", "task complete", "task fail", "task extend",
                    "task release", "work", "queue list", "queue describe", "audit", "bench", "config defaults",
                    "config validate", "config show", "completion"):
        text = local(*command.split(), "--help").stdout
        assert f"millrace {command}" in text
        assert "Examples:" in text, command


@pytest.mark.parametrize("arguments", [
    [], ["nonsense"], ["task"], ["queue", "list", "--nonsense"], ["task", "enqueue"], ["task", "enqueue", "q"],
    ["work", "q"], ["work", "q", "--exec", "true", "--lease", "soon"], ["-o", "xml", "queue", "list"],
    ["task", "enqueue", "q", "x", "--batch", "0"], ["task", "enqueue", "q", "x", "--header", "novalue"],
    ["task", "complete", "q", "not a token"], ["bench", "--tasks", "5", "--duration", "5s"],
], ids=" ".join)
def test_wrong_usage_is_exit_code_2_and_says_what_to_do(local, arguments):
    done = local(*arguments, exit_code=USAGE)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and "hint: " in done.stderr


def test_no_server_is_exit_code_4_and_says_how_to_start_one(local):
    for command in (["queue", "list"], ["task", "enqueue", "q", "x", "--no-retry"], ["audit"], ["server", "check"],
                    ["task", "enqueue", "q", "x", "--timeout", "300ms"]):
        done = local(*command, "--address", "unix:/nonexistent/socket", exit_code=UNAVAILABLE)
        assert "millrace server --dev" in done.stderr


def test_the_address_may_come_from_the_environment(shared, local):
    local("queue", "list", env={"MILLRACE_ADDRESS": shared.address})


def test_unknown_queues_are_exit_code_3(cli):
    assert "queue list" in cli("queue", "describe", "no-such-queue", exit_code=NOT_FOUND).stderr
    cli("audit", "no-such-queue", exit_code=NOT_FOUND)


def test_bad_queue_names_are_refused_with_the_field(cli):
    done = cli("task", "enqueue", "bad name!", "x", exit_code=USAGE)
    assert "queue" in done.stderr


# Enqueue.

def test_enqueue_arguments_prints_their_ids(cli, queue):
    ids = cli("task", "enqueue", queue, "one", "two").stdout.split()
    assert len(set(ids)) == 2
    tasks = json.loads(cli("task", "peek", queue, "-o", "json").stdout)
    assert [t["task_id"] for t in tasks] == ids
    assert [t["payload"] for t in tasks] == ["one", "two"]


def test_enqueue_lines_from_standard_input(cli, queue):
    text = "".join(f"record {i}\n" for i in range(1000))
    done = cli("task", "enqueue", queue, "--from-file", "-", "--batch", "37", "-o", "json", input=text)
    report = json.loads(done.stdout)
    assert report["stored"] == 1000 and report["refused"] == 0 and report["uncertain_batches"] == 0
    assert len(set(report["task_ids"])) == 1000
    tasks = [json.loads(line) for line in cli("task", "peek", queue, "--limit", "2000", "-o", "jsonl").stdout.splitlines()]
    assert [t["payload"] for t in tasks] == [f"record {i}" for i in range(1000)]
    assert [t["task_id"] for t in tasks] == report["task_ids"]


def test_enqueue_in_parallel_keeps_the_order_of_ids(cli, queue):
    text = "".join(f"{i}\n" for i in range(500))
    report = json.loads(cli("task", "enqueue", queue, "-f", "-", "--batch", "10", "--parallel", "8", "-o", "json",
                            input=text).stdout)
    by_id = {t["task_id"]: t["payload"]
             for t in json.loads(cli("task", "peek", queue, "--limit", "1000", "-o", "json").stdout)}
    assert [by_id[i] for i in report["task_ids"]] == [str(i) for i in range(500)]


def test_enqueue_paragraphs(cli, queue, tmp_path):
    file = tmp_path / "index"
    file.write_text("Package: a\nSize: 1\n\n\nPackage: b\nDescription: x\n y\n\n")
    out = cli("task", "enqueue", queue, "--from-file", str(file), "--format", "rfc822").stdout
    assert out.startswith("stored 2 tasks")
    tasks = json.loads(cli("task", "peek", queue, "-o", "json").stdout)
    assert [t["payload"] for t in tasks] == ["Package: a\nSize: 1\n", "Package: b\nDescription: x\n y\n"]


def test_enqueue_json_lines_stops_at_the_first_bad_one(cli, queue):
    done = cli("task", "enqueue", queue, "-f", "-", "--format", "jsonl", input='{"a":1}\n{broken\n{"b":2}\n',
               exit_code=FAILED)
    assert "line 2" in done.stderr
    assert counts(cli, queue) == expect_counts(accepted=1, waiting=1)


def test_enqueue_jsonl_output_is_one_id_a_line(cli, queue):
    lines = cli("task", "enqueue", queue, "a", "b", "-o", "jsonl").stdout.splitlines()
    assert all(json.loads(line)["task_id"] for line in lines) and len(lines) == 2


def test_a_record_that_is_too_large_is_told_and_the_others_are_stored(cli, queue):
    text = "small\n" + "x" * (2 << 20) + "\nlast\n"
    done = cli("task", "enqueue", queue, "-f", "-", "--batch", "1", input=text, exit_code=FAILED)
    assert "record 2" in done.stderr and "PAYLOAD_TOO_LARGE" in done.stderr
    assert counts(cli, queue) == expect_counts(accepted=2, waiting=2)


def test_a_missing_file_is_an_error(cli, queue):
    assert "cannot read" in cli("task", "enqueue", queue, "-f", "/nonexistent", exit_code=FAILED).stderr


def test_enqueue_waits_through_a_server_restart(server, binary):
    """Nothing of the input is lost over kills of the server, and repeats are told."""
    lines = 20_000
    feeder = subprocess.Popen(
        [str(binary), "task", "enqueue", "q", "-f", "-", "--batch", "5", "-o", "json", "--address", server.address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=harness.clean_environment())
    result = {}

    def feed():
        result["out"], result["err"] = feeder.communicate("".join(f"{i}\n" for i in range(lines)))

    thread = threading.Thread(target=feed)
    thread.start()
    for share in (1, 2, 3):
        def stored():
            with server.client() as client:
                try:
                    return client.describe("q").counts.accepted
                except Exception:  # Not there yet.
                    return 0
        wait_until(lambda: stored() >= share * lines // 5 or not thread.is_alive(), "some are stored")
        server.restart()
    thread.join(harness.PATIENCE)
    assert feeder.returncode == OK, result["err"]
    report = json.loads(result["out"])
    assert report["stored"] == lines
    assert len(set(report["task_ids"])) == lines
    with server.client() as client:
        accepted = client.describe("q").counts.accepted
    assert lines <= accepted <= lines + 5 * report["uncertain_batches"]
    assert server.cli("audit").returncode == OK


# The calls by hand.

def lease(cli, queue, *arguments):
    return json.loads(cli("task", "lease", queue, *arguments, "-o", "json").stdout)


def test_lease_then_complete(cli, queue):
    cli("task", "enqueue", queue, "work", "--header", "kind=test", "--max-attempts", "3")
    [task] = lease(cli, queue)
    assert task["payload"] == "work" and task["headers"] == {"kind": "test"}
    assert task["attempt"] == 1 and task["max_attempts"] == 3
    assert counts(cli, queue) == expect_counts(accepted=1, leased=1)
    assert "completed" in cli("task", "complete", queue, task["lease_token"]).stdout
    assert counts(cli, queue) == expect_counts(accepted=1, done=1)
    again = cli("task", "complete", queue, task["lease_token"], exit_code=FAILED)
    assert "LEASE_LOST" in again.stdout and "hint: " in again.stderr
    assert counts(cli, queue) == expect_counts(accepted=1, done=1)


def test_lease_of_an_empty_queue(cli, queue):
    assert lease(cli, queue) == []
    assert "no task" in cli("task", "lease", queue).stdout


def test_fail_counts_attempts_and_permanent_is_dead(cli, queue):
    cli("task", "enqueue", queue, "x")
    [task] = lease(cli, queue)
    cli("task", "fail", queue, task["lease_token"], "-m", "first")
    [task] = lease(cli, queue, "--wait", "5s")
    assert task["attempt"] == 2
    cli("task", "fail", queue, task["lease_token"], "--message", "hopeless", "--permanent")
    assert counts(cli, queue) == expect_counts(accepted=1, dead=1)
    [dead] = json.loads(cli("task", "peek", queue, "--state", "dead", "-o", "json").stdout)
    assert dead["error_message"] == "hopeless" and dead["state"] == "dead"


def test_release_charges_no_attempt(cli, queue):
    cli("task", "enqueue", queue, "x")
    [task] = lease(cli, queue)
    cli("task", "release", queue, task["lease_token"])
    [task] = lease(cli, queue, "--wait", "5s")
    assert task["attempt"] == 1


def test_extend_sets_the_time_left(cli, queue):
    cli("task", "enqueue", queue, "x")
    [task] = lease(cli, queue, "--lease", "10s")
    cli("task", "extend", queue, task["lease_token"], "--lease", "10m")
    [peeked] = json.loads(cli("task", "peek", queue, "--state", "leased", "-o", "json").stdout)
    assert 500 < peeked["lease_seconds_left"] <= 600


def test_peek_as_a_table_shows_no_control_characters(cli, queue):
    cli("task", "enqueue", queue, "a\x1b[2Jb\nc")
    out = cli("task", "peek", queue).stdout
    assert "\x1b" not in out and "a\\x1b[2Jb\\nc" in out
    assert "PAYLOAD" in out


def test_bytes_that_are_no_text(cli, queue, shared):
    with shared.client() as client:
        client.enqueue(queue, b"\xff\x00\xfe")
    [task] = json.loads(cli("task", "peek", queue, "-o", "json").stdout)
    assert task["payload_base64url"] == "_wD-"
    cli("task", "peek", queue)


# Work.

def test_work_gives_the_command_everything(cli, queue, tmp_path):
    cli("task", "enqueue", queue, "the payload", "--header", "Trace-Id=abc")
    out = tmp_path / "out"
    script = (f'{{ cat; echo; echo "$MILLRACE_ATTEMPT $MILLRACE_QUEUE $MILLRACE_HEADER_TRACE_ID"; '
              f'echo "$MILLRACE_TASK_ID"; echo "$MILLRACE_ENQUEUE_TIME"; }} > {out}')
    done = cli("work", queue, "--exec", script, "--until-empty")
    assert "1 completed" in done.stderr
    payload, context, task_id, time = out.read_text().splitlines()
    assert payload == "the payload"
    assert context == f"1 {queue} abc"
    assert task_id and time.endswith("Z")
    assert counts(cli, queue) == expect_counts(accepted=1, done=1)


def test_work_until_empty_does_everything_once(cli, queue, tmp_path):
    cli("task", "enqueue", queue, "-f", "-", input="".join(f"{i}\n" for i in range(300)))
    out = tmp_path / "out"
    report = json.loads(cli("work", queue, "--exec", f"echo $(cat) >> {out}", "--slots", "8", "--until-empty", "-o",
                            "json").stdout)
    assert report["completed"] == 300 and report["leased"] == 300
    assert sorted(map(int, out.read_text().split())) == list(range(300))
    assert counts(cli, queue) == expect_counts(accepted=300, done=300)


def test_work_on_a_queue_never_used_ends(cli, queue):
    assert json.loads(cli("work", queue, "--exec", "true", "--until-empty", "-o", "json").stdout)["leased"] == 0


def test_work_max_tasks_takes_exactly_so_many(cli, queue):
    cli("task", "enqueue", queue, *"abcdefgh")
    report = json.loads(cli("work", queue, "--exec", "true", "--slots", "3", "--max-tasks", "5", "-o", "json").stdout)
    assert report["completed"] == 5
    assert counts(cli, queue) == expect_counts(accepted=8, done=5, waiting=3)


def test_exit_codes_of_the_command(cli, queue):
    cli("task", "enqueue", queue, "retry", "never", "--max-attempts", "2")
    script = 'case $(cat) in retry) echo not now >&2; exit 1;; never) echo no way >&2; exit 100;; esac'
    done = cli("work", queue, "--exec", script, "--until-empty", "-o", "json")
    report = json.loads(done.stdout)
    assert report["failed"] == 3 and report["completed"] == 0, "two attempts of one, one of the other"
    assert done.stderr.count("not now") == 2, "passed on"
    dead = {t["payload"]: t for t in json.loads(cli("task", "peek", queue, "--state", "dead", "-o", "json").stdout)}
    assert dead["retry"]["attempt"] == 2 and dead["retry"]["error_message"] == "exit code 1: not now"
    assert dead["never"]["attempt"] == 1 and dead["never"]["error_message"] == "exit code 100: no way"
    assert counts(cli, queue) == expect_counts(accepted=2, dead=2)


def test_a_long_command_keeps_its_lease(cli, queue, binary, shared, tmp_path):
    """Three times its lease, and nobody else gets the task."""
    cli("task", "enqueue", queue, "long")
    release = tmp_path / "release"
    worker = Worker(binary, shared, queue, "--lease", "1s", "--exec",
                    f"until test -e {release}; do sleep 0.05; done", "--max-tasks", "1")
    wait_until(lambda: counts(cli, queue)["leased"] == 1, "leased")
    assert lease(cli, queue, "--wait", "3s") == []
    release.touch()
    report = worker.finish()
    assert report["completed"] == 1 and report["lease_lost"] == 0
    assert counts(cli, queue) == expect_counts(accepted=1, done=1)


def test_a_lost_lease_ends_the_command(cli, queue, binary, shared, tmp_path):
    cli("task", "enqueue", queue, "x")
    ended = tmp_path / "ended"
    worker = Worker(binary, shared, queue, "--lease", "1s", "--max-tasks", "1", "--exec",
                    f"trap 'touch {ended}; exit 0' TERM; while :; do sleep 0.05; done")
    wait_until(lambda: counts(cli, queue)["leased"] == 1, "leased")
    # While the worker is frozen its lease runs out.
    worker.process.send_signal(signal.SIGSTOP)
    [stolen] = lease(cli, queue, "--wait", "20s", "--lease", "60s")
    worker.process.send_signal(signal.SIGCONT)
    report = worker.finish()
    assert report["lease_lost"] == 1 and report["completed"] == 0
    assert ended.exists(), "it got TERM"
    assert counts(cli, queue) == expect_counts(accepted=1, leased=1), "the new lease is untouched"
    cli("task", "complete", queue, stolen["lease_token"])


def test_a_graceful_stop_lets_commands_finish(cli, queue, binary, shared, tmp_path):
    cli("task", "enqueue", queue, "a", "b", "c")
    release = tmp_path / "release"
    worker = Worker(binary, shared, queue, "--slots", "2", "--exec",
                    f"until test -e {release}; do sleep 0.02; done")
    wait_until(lambda: counts(cli, queue)["leased"] == 2, "both slots are busy")
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: json.loads(cli("queue", "describe", queue, "-o", "json").stdout)["pollers"] == 0, "no poll")
    release.touch()
    report = worker.finish()
    assert report["completed"] == 2 and report["released"] == 0
    assert counts(cli, queue) == expect_counts(accepted=3, done=2, waiting=1)


@pytest.mark.parametrize("signals, grace", [(1, "100ms"), (2, "60s")], ids=["grace over", "second signal"])
def test_what_is_still_running_is_killed_and_released_uncharged(cli, queue, binary, shared, signals, grace):
    cli("task", "enqueue", queue, "a", "b")
    worker = Worker(binary, shared, queue, "--slots", "2", "--grace", grace, "--kill-after", "200ms", "--exec",
                    "trap '' TERM; while :; do sleep 0.05; done")
    wait_until(lambda: counts(cli, queue)["leased"] == 2, "both slots are busy")
    for _ in range(signals):
        worker.process.send_signal(signal.SIGINT)
        if signals == 2 and _ == 0:
            assert "signal again" in worker.process.stderr.readline()
    report = worker.finish()
    assert report["released"] == 2 and report["completed"] == 0
    tasks = lease(cli, queue, "--max", "2", "--wait", "5s")
    assert {t["attempt"] for t in tasks} == {1}
    assert len(tasks) == 2 or lease(cli, queue, "--wait", "5s")


def test_work_waits_through_server_restarts(server, binary, tmp_path):
    """The server is killed while commands run: none is lost, none is finished twice."""
    server.cli("task", "enqueue", "q", "-f", "-", input="".join(f"{i}\n" for i in range(400)))
    out = tmp_path / "out"
    worker = Worker(binary, server, "q", "--slots", "4", "--until-empty", "--lease", "10s", "--exec",
                    f"echo $(cat) >> {out}; sleep 0.02")
    for share in (50, 150, 250):
        wait_until(lambda: out.exists() and len(out.read_text().split()) >= share, "some are done")
        server.restart()
    report = worker.finish()
    # A lease handed out just before a kill need not be remembered; its task is then handed out again.
    assert 400 - report["unconfirmed"] <= report["completed"] <= 400
    assert report["lease_lost"] <= 3 * 4, "at most the slots, at each kill"
    assert set(map(int, out.read_text().split())) == set(range(400))
    with server.client() as client:
        now = client.describe("q").counts
    assert (now.accepted, now.done) == (400, 400)
    assert server.cli("audit", "q").returncode == OK


def test_no_zombies_are_left_while_working(cli, queue, binary, shared):
    cli("task", "enqueue", queue, "-f", "-", input="".join(f"{i}\n" for i in range(100)))
    worker = Worker(binary, shared, queue, "--slots", "4", "--exec", "true")
    wait_until(lambda: counts(cli, queue)["done"] == 100, "all done")

    def zombies():
        return subprocess.run(["ps", "--ppid", str(worker.process.pid), "-o", "stat="], capture_output=True,
                              text=True).stdout.split()

    wait_until(lambda: zombies() == [], "no children")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.finish()["completed"] == 100


def test_work_on_a_bad_queue_name_ends_with_the_reason(cli):
    done = cli("work", "bad name", "--exec", "true", exit_code=USAGE)
    assert "error: " in done.stderr


# Looking.

def test_list_and_describe(cli, queue):
    for suffix in ("a", "b"):
        cli("task", "enqueue", f"{queue}/{suffix}", "x")
    table = cli("queue", "list", "--prefix", queue).stdout.splitlines()
    assert table[0].split()[:2] == ["QUEUE", "WAITING"]
    assert [line.split()[:2] for line in table[1:]] == [[f"{queue}/a", "1"], [f"{queue}/b", "1"]]
    rows = [json.loads(line) for line in cli("queue", "list", "--prefix", queue, "-o", "jsonl").stdout.splitlines()]
    assert [r["name"] for r in rows] == [f"{queue}/a", f"{queue}/b"]
    assert rows[0]["counts"] == expect_counts(accepted=1, waiting=1)
    assert "oldest_age_seconds" in rows[0]
    assert "accepted" in cli("queue", "describe", f"{queue}/a").stdout
    assert json.loads(cli("queue", "list", "--prefix", "no-such", "-o", "json").stdout) == []


def test_audit_of_one_and_all(cli, queue):
    cli("task", "enqueue", queue, "a", "b", "c")
    [task] = lease(cli, queue)
    cli("task", "complete", queue, task["lease_token"])
    table = cli("audit", queue).stdout
    assert "ok" in table and "VERDICT" in table
    report = json.loads(cli("audit", "--all", "-o", "json").stdout)
    assert report["holds"] is True and report["violated"] == 0
    [row] = [q for q in report["queues"] if q["queue"] == queue]
    assert (row["accepted"], row["done"], row["waiting"], row["missing"]) == (3, 1, 2, 0)


def test_server_check(cli, server):
    assert "serving" in cli("server", "check").stdout
    server.terminate()
    done = server.cli("server", "check", "--timeout", "2s")
    assert done.returncode == UNAVAILABLE and "unreachable" in done.stdout


# Settings and the rest.

def test_config_defaults_is_a_file_that_validates(local, tmp_path):
    file = tmp_path / "millrace.yaml"
    file.write_text(local("config", "defaults").stdout)
    local("config", "validate", str(file))
    file.write_text("log:\n  levle: info\n")
    done = local("config", "validate", str(file), exit_code=FAILED)
    assert ":2" in done.stderr and "level" in done.stderr
    local("config", "validate", "/nonexistent", exit_code=NOT_FOUND)


def test_config_show_tells_where_each_value_comes_from(local, tmp_path):
    file = tmp_path / "millrace.yaml"
    file.write_text("log:\n  level: warn\n")
    rows = json.loads(local("config", "show", "--config", str(file), "--listen", "127.0.0.1:1", "-o", "json",
                            env={"MILLRACE_LOG_FORMAT": "json"}).stdout)
    rows = {r["name"]: r for r in rows}
    assert rows["log.level"]["value"] == "warn" and str(file) in rows["log.level"]["origin"]
    assert rows["listen"]["value"] == "127.0.0.1:1" and "--listen" in rows["listen"]["origin"]
    assert rows["log.format"]["value"] == "json" and "MILLRACE_LOG_FORMAT" in rows["log.format"]["origin"]
    assert rows["admin.listen"]["origin"] == "default"


def test_version(local):
    assert local("version").stdout.startswith("millrace ")
    assert json.loads(local("version", "-o", "json").stdout)["version"]


def test_completion_script_completes(local, binary):
    script = local("completion", "bash").stdout
    probe = script + '\nCOMP_WORDS=(millrace task enq); COMP_CWORD=2; _millrace; echo "${COMPREPLY[@]}"\n' \
                     'COMP_WORDS=(millrace work q --unt); COMP_CWORD=3; _millrace; echo "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.stdout.splitlines() == ["enqueue", "--until-empty"], done.stderr


def test_a_reader_that_goes_away_does_no_harm(binary, shared, cli, queue):
    cli("task", "enqueue", queue, "-f", "-", input="".join(f"{i}\n" for i in range(2000)))
    done = subprocess.run(["bash", "-c", f"{binary} task peek {queue} --limit 2000 -o jsonl --address {shared.address}"
                                         " | head -n 1"], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert json.loads(done.stdout)["payload"] == "0"


# Bench.

@pytest.mark.parametrize("mode, batch, queues", [("enqueue", 1, 1), ("enqueue", 64, 7), ("cycle", 1, 1),
                                                 ("cycle", 64, 1), ("cycle", 8, 100), ("drain", 16, 3)])
def test_bench_modes(local, mode, batch, queues):
    report = json.loads(local("bench", mode, "--tasks", "2048", "--batch", str(batch), "--queues", str(queues), "-o",
                              "json").stdout)
    assert report["tasks"] >= 2048 and report["errors"] == {}
    assert report["tasks_per_second"] > 0 and report["server"]["cpu_us_per_task"] > 0
    call = "enqueue" if mode == "enqueue" else "complete"
    latency = report["latency_us"][call]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]


def test_bench_on_a_running_server_leaves_its_books_right(cli, shared):
    report = json.loads(cli("bench", "cycle", "--tasks", "500", "--callers", "8", "-o", "json").stdout)
    assert report["tasks"] >= 500 and "server" not in report
    cli("audit")


def test_bench_idle_queues(local):
    report = json.loads(local("bench", "idle-queues", "--queues", "200", "-o", "json").stdout)
    assert report["loaded"] == 200 and report["errors"] == {}
