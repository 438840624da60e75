"""Several nodes on one database: any of them takes any call, and queues move without anybody noticing."""

import os
import pathlib
import random
import signal
import threading
import time

import pytest

import certificates
import millrace
import postgres
from harness import wait_until
from history.checker import check
from history.records import Death, History, Kind, Outcome
from history.run import _drain, _look, _used, summary
from history.workload import Recorder, Workload
from nodes import EXPIRY, Nodes, clients_of, loaded_queues, metric, node_list, pause
from test_metrics_golden import shape
from test_on_postgres import Work

FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


@pytest.fixture(scope="module")
def database():
    server = postgres.Postgres()
    yield server
    server.close()


@pytest.fixture
def nodes(binary, database, tmp_path):
    nodes = Nodes(binary, database, tmp_path, 3)
    yield nodes
    for server in nodes.servers:
        if server.running:
            os.kill(server.pid, signal.SIGCONT)
    nodes.close()


def lease_all(clients, queues, duration=120):
    """One task of each queue, by turns through all clients."""
    jobs = []
    for number, queue in enumerate(queues):
        [job] = clients[number % len(clients)].lease(queue, wait=30, lease_duration=duration)
        jobs.append(job)
    return jobs


def lease_whatever_happens(client, queue, count):
    """A call that was passed on to a node that then went away has an unknown outcome."""
    while True:
        try:
            return client.lease(queue, count, wait=60, lease_duration=120)
        except millrace.Unavailable as error:
            assert error.reason == "OUTCOME_UNKNOWN", error


def fences(nodes):
    return sum(metric(server, "millrace_backlog_condition_failures_total") for server in nodes.servers if server.running)


def test_any_node_takes_any_call(nodes):
    nodes.start()
    queues = [f"queue/{i:02}" for i in range(30)]
    with clients_of(nodes.servers) as clients:
        for number, queue in enumerate(queues):
            one, two, three = (clients[(number + shift) % 3] for shift in range(3))
            first, second = one.enqueue(queue, b"first"), two.enqueue(queue, b"second")
            [job] = three.lease(queue, wait=30)
            assert (job.task_id, job.data) == (first, b"first")
            two.complete(job)
            with pytest.raises(millrace.LeaseLost):
                three.complete(job)
            [job] = one.lease(queue, wait=30)
            assert (job.task_id, job.attempt) == (second, 1)
            three.extend(job, 60)
        # One owner each, and nobody took a queue from anybody.
        loaded = [loaded_queues(server) for server in nodes.servers]
        assert sum(len(some) for some in loaded) == 30 and set().union(*loaded) == set(queues)
        assert all(loaded), "each node has its share"
        assert fences(nodes) == 0
        # Each node tells the same.
        views = [[(q.name, str(q.counts), q.loaded) for q in client.list_queues()] for client in clients]
        assert views[0] == views[1] == views[2]
        assert [name for name, _, loaded in views[0] if loaded] == queues
        for queue in queues:
            counts = [client.describe(queue).counts for client in clients]
            assert (counts[0].done, counts[0].leased) == (1, 1)
            assert counts[0] == counts[1] == counts[2]
        for client in clients:
            with pytest.raises(millrace.QueueNotFound):
                client.describe("none")
            with pytest.raises(millrace.InvalidArgument):
                client.enqueue("not a name", b"x")
    assert sum(metric(server, "millrace_node_calls_passed_on_total") for server in nodes.servers) > 60
    shown = node_list(nodes[0])
    assert [node["id"] for node in shown] == ["n0", "n1", "n2"]
    assert [node["answering"] for node in shown] == [True, False, False]
    assert [node["address"] for node in shown] == [server.address for server in nodes.servers]
    assert all(node["state"] == "serving" for node in shown)
    golden = (pathlib.Path(__file__).parent / "golden" / "metrics_nodes.txt").read_text().splitlines()
    assert [line for line in shape(nodes[0].http("/metrics")[1]) if line.startswith("millrace_node")] == golden
    table = nodes[1].cli("node", "list").stdout.splitlines()
    assert table[0].split()[:2] == ["NODE", "ADDRESS"] and "n1 *" in table[2]


def test_a_node_that_joins_takes_its_share_and_every_lease_stays_good(nodes):
    nodes[0].start()
    nodes.wait_settled()
    queues = [f"q{i}" for i in range(40)]
    with clients_of([nodes[0]]) as [client]:
        for queue in queues:
            client.enqueue_many(queue, [b"leased", b"waiting"])
        jobs = lease_all([client], queues)
        assert len(loaded_queues(nodes[0])) == 40
        # Waits for a task of a queue that moves meanwhile, and hears nothing of that.
        empty = [f"empty{i}" for i in range(10)]
        polls = [client.start_lease(queue, wait=50) for queue in empty]
        nodes[1].start()
        nodes[2].start()
        nodes.wait_settled()
        with clients_of(nodes.servers) as clients:
            for queue in empty:
                clients[1].enqueue(queue, b"late")
            for poll in polls:
                assert [job.data for job in poll.result()] == [b"late"]
            for number, job in enumerate(jobs):
                clients[number % 3].complete(job)
            for job in lease_all(clients, queues):
                assert (job.data, job.attempt) == (b"waiting", 1)
                clients[2].complete(job)
            for queue in queues:
                counts = clients[0].describe(queue).counts
                assert (counts.accepted, counts.done) == (2, 2), str(counts)
    assert fences(nodes) == 0
    assert all(loaded_queues(server) for server in nodes.servers)


def test_a_node_that_stops_gives_its_queues_away_first(nodes):
    nodes.start()
    queues = [f"q{i}" for i in range(30)]
    with clients_of(nodes.servers[1:]) as clients:
        for queue in queues:
            clients[0].enqueue_many(queue, [b"one", b"two"])
        jobs = lease_all(clients, queues)
        stays = [q for q in queues if q not in loaded_queues(nodes[0])]
        moves = [q for q in queues if q not in stays]
        assert moves and stays
        kept = [f"poll/{i}" for i in range(12)]
        polls = [clients[i % 2].start_lease(queue, wait=50) for i, queue in enumerate(kept)]
        wait_until(lambda: all(q in [i.name for i in clients[0].list_queues("poll/") if i.pollers] for q in kept), "polls wait")
        begin = time.monotonic()
        assert nodes[0].terminate() == 0
        for queue in kept:
            clients[1].enqueue(queue, b"late")
        for poll in polls:
            assert [job.data for job in poll.result()] == [b"late"]
        for number, job in enumerate(jobs):
            clients[number % 2].complete(job)
        print(f"stopped, and every queue answered, within {time.monotonic() - begin:.2f} s")
        nodes.wait_settled()
        assert [node["id"] for node in node_list(nodes[1])] == ["n1", "n2"]
    assert fences(nodes) == 0


def test_a_killed_nodes_queues_are_back_soon_after_it_expired(nodes):
    nodes.start()
    queues = [f"q{i}" for i in range(30)]
    with clients_of(nodes.servers[1:]) as clients:
        for queue in queues:
            clients[0].enqueue_many(queue, [b"one", b"two"])
        jobs = lease_all(clients, queues)
        # A durable write of each queue, so that no lease is only in the node's memory.
        for queue in queues:
            clients[0].enqueue(queue, b"three")
        dead = loaded_queues(nodes[0])
        assert dead
        nodes[0].kill()
        begin = time.monotonic()
        for job in jobs:
            if job.queue not in dead:
                clients[0].complete(job)
        print(f"others went on: {time.monotonic() - begin:.2f} s")
        for job in jobs:
            if job.queue in dead:
                clients[1].complete(job, timeout=60)
        print(f"queues of the killed node answered {time.monotonic() - begin - EXPIRY:+.2f} s from its expiry on")
        for queue in queues:
            counts = clients[1].describe(queue).counts
            assert (counts.accepted, counts.done, counts.waiting) == (3, 1, 2), str(counts)
        # It comes back under its name.
        nodes[0].start()
        nodes.wait_settled()
    assert fences(nodes) == 0


def test_a_paused_owner_that_comes_back_harms_nobody(nodes):
    nodes.start()
    with clients_of(nodes.servers) as clients:
        queues = [f"q{i}" for i in range(12)]
        for queue in queues:
            clients[1].enqueue_many(queue, [b"%d" % i for i in range(10)])
            for job in clients[1].lease(queue, 1, wait=30):
                clients[1].complete(job)
        mine = sorted(loaded_queues(nodes[0]))
        assert mine
        clients[0].describe(mine[0])
        pause(nodes[0])
        # Calls that reach it while it sleeps, and are dealt with when it wakes up.
        asleep = [clients[0].start_lease(queue, 3, wait=0, timeout=120, lease_duration=120) for queue in mine]
        taken = {}
        for queue in mine:
            jobs = lease_whatever_happens(clients[1], queue, 5)
            assert len(jobs) == 5
            taken[queue] = jobs
            clients[2].complete(jobs[0])
        nodes[0].send(signal.SIGCONT)
        for queue, poll in zip(mine, asleep):
            late = poll.result()
            assert not {job.task_id for job in late} & {job.task_id for job in taken[queue]}, "a task in two hands"
            for job in [*late, *taken[queue][1:]]:
                clients[0].complete(job, timeout=60)
        nodes.wait_settled()
        for queue in queues:
            while jobs := clients[0].lease(queue, 10, wait=0):
                for job in jobs:
                    clients[1].complete(job)
            counts = clients[2].describe(queue).counts
            assert (counts.accepted, counts.done) == (10, 10), str(counts)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_work_goes_on_while_nodes_come_and_go(nodes, end):
    nodes.start()
    work = Work(nodes.servers[1:], 1_500).start()
    for target in (150, 600):
        wait_until(lambda: work.completed() >= target, f"{target} tasks are done", 120)  # noqa: B023
        victim = nodes.owner("q") if end == "kill" else nodes[0]
        if victim is not nodes[0]:
            # Its clients go on asking it.
            victim.kill()
        elif end == "kill":
            victim.kill()
        else:
            assert victim.terminate() == 0
        victim.start()
    work.finish()


@pytest.mark.skipif(not FAKETIME.exists(), reason="the package faketime is not installed")
def test_nodes_whose_clocks_differ_by_an_hour(binary, database, tmp_path):
    nodes = Nodes(binary, database, tmp_path, 1)
    for shift in ("+3600s", "-3600s"):
        nodes.add(environment={"LD_PRELOAD": str(FAKETIME), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    try:
        nodes.start()
        queues = [f"q{i}" for i in range(20)]
        with clients_of(nodes.servers) as clients:
            for number, queue in enumerate(queues):
                clients[number % 3].enqueue_many(queue, [millrace.NewTask(b"one"), millrace.NewTask(b"two", time_to_live=600)])
            jobs = lease_all(clients, queues)
            assert all(abs(job.enqueue_time - time.time()) < 60 for job in jobs)
            for gone in (0, 1):
                assert nodes[gone].terminate() == 0
                # Whoever has a queue now knows of its lease, and of the task that would be too old by its own clock.
                for queue in queues:
                    counts = clients[2].describe(queue).counts
                    assert counts.dropped == 0
                    found = clients[2].lease(queue, 10, wait=30 if gone == 0 else 0, lease_duration=600)
                    assert [job.data for job in found] == ([b"two"] if gone == 0 else [])
                if gone == 0:
                    nodes[0].start()
                    nodes.wait_settled()
            for job in jobs:
                clients[2].complete(job)
        with clients_of([nodes[1]]) if nodes[1].running else clients_of([nodes[0]]) as [client]:
            for queue in queues:
                assert client.describe(queue).counts.done == 1
    finally:
        nodes.close()


def test_nodes_show_each_other_their_certificates(binary, database, tmp_path):
    authority = certificates.Authority(tmp_path / "ca")
    cert, key = authority.issue("node")
    tls = millrace.Tls(ca_file=str(authority.cert_file), cert_file=str(cert), key_file=str(key))
    nodes = Nodes(binary, database, tmp_path, 2, f"--rpc-tls-cert-file={cert}", f"--rpc-tls-key-file={key}",
                  f"--rpc-tls-client-ca-file={authority.cert_file}", f"--node-tls-ca-file={authority.cert_file}")
    try:
        for server in nodes.servers:
            server.start()
        with nodes[0].client(tls=tls, timeout=60) as one, nodes[1].client(tls=tls, timeout=60) as two:
            for number in range(12):
                one.enqueue(f"q{number}", b"x")
                [job] = two.lease(f"q{number}", wait=30)
                one.complete(job)
        assert all(loaded_queues(server) for server in nodes.servers)
        assert all(metric(server, "millrace_node_calls_passed_on_total") > 0 for server in nodes.servers)
    finally:
        nodes.close()


# ---- Recorded histories ----------------------------------------------------------------------------------------------


class NodesNemesis:
    """Faults of nodes, by a plan that a seed gives."""

    def __init__(self, nodes, history, seed):
        self._nodes, self._history, self._rng = nodes, history, random.Random(f"nodes {seed}")
        self._never = threading.Event()

    def run(self, seconds, tell):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._never.wait(0.5 + self._rng.random() * 2)
            server = self._rng.choice(self._nodes.servers)
            what = self._rng.choices(("kill", "stop", "pause", "doze"), (4, 3, 2, 2))[0]
            tell(f"{what} {server.folder.name}")
            begin = time.monotonic()
            if what == "kill":
                server.kill()
                # Away for longer than it is remembered, or not.
                self._never.wait(self._rng.choice((0, 0, EXPIRY + 1)))
                server.start()
            elif what == "stop":
                server.terminate()
                self._never.wait(self._rng.choice((0, 1)))
                server.start()
            else:
                pause(server)
                self._never.wait(EXPIRY + 1 + self._rng.random() if what == "pause" else self._rng.random() * 2)
                server.send(signal.SIGCONT)
            if what in ("kill", "pause"):
                # What it had told and not written down yet is forgotten, as if it had died.
                self._history.deaths.append(Death(begin, time.monotonic()))


@pytest.mark.slow
def test_a_history_of_nodes_breaks_no_rule(nodes, tmp_path):
    seed = int(os.environ.get("MILLRACE_SEED", random.SystemRandom().randrange(1 << 32)))
    nodes.start()
    history, recorder = History(), Recorder()
    workload = Workload([server.address for server in nodes.servers], recorder, seed)
    log: list[str] = []
    try:
        workload.start()
        NodesNemesis(nodes, history, seed).run(float(os.environ.get("MILLRACE_SECONDS", 25)), log.append)
    finally:
        workload.stop()
    nodes.wait_settled()
    _drain(nodes[0], recorder)
    nodes[1].restart()
    history.calls = recorder.calls
    for queue in _used(recorder):
        history.final[queue] = _look(nodes[2], queue)
    found = check(history)
    kept = tmp_path / "history.jsonl"
    if found or recorder.surprises:
        history.save(kept)
    assert not found and not recorder.surprises, (
        f"MILLRACE_SEED={seed} (kept: {kept})\n" + "\n".join(log) + "\n" + summary(history) + "\n"
        + "\n".join(str(violation) for violation in found) + "\n".join(recorder.surprises))
    print(summary(history))
    done = sum(1 for call in history.calls if call.kind is Kind.COMPLETE
               for item in call.settled if item.outcome is Outcome.OK)
    assert done > 50, summary(history)
