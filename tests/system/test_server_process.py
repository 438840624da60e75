"""The server as a process: starting, stopping, and data folders it must not touch."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest

import millrace
from harness import StartError, wait_until


def test_the_ready_file_tells_the_truth_and_goes_away(server):
    ready = json.loads((server.folder / "ready.json").read_text())
    assert ready["pid"] == server.pid and ready["grpc"] == server.address and ready["admin"] == server.admin
    assert not ready["grpc"].endswith(":0")
    assert server.terminate() == 0
    assert not (server.folder / "ready.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_graceful_stop_ends_waiting_polls_and_keeps_everything(server, number):
    with server.client() as client:
        client.enqueue_many("q", [b"%d" % i for i in range(10)])
        held = client.lease("q", lease_duration=3600, wait=0)[0]
        poll = client.start_lease("idle", wait=50)
        wait_until(lambda: client.describe("idle").pollers == 1, "the poll waits")
        server.send(number)
        try:
            assert poll.result() == []
        except millrace.Unavailable as error:
            assert error.surely_not_done or error.reason == "", error
        assert server.wait() == 0
    server.start()
    with server.client() as client:
        # Not in memory yet: what is leased counts as waiting.
        assert client.describe("q").counts == millrace.QueueCounts(10, 0, 10, 0, 0, 0)
        # A clean stop forgets no lease.
        client.extend(held, 3600)
        assert client.describe("q").counts == millrace.QueueCounts(10, 0, 9, 1, 0, 0)
        client.complete(held)


def test_calls_in_flight_when_the_stop_begins_are_answered(server):
    """Producers under way see success, or a clear no; what they were told is stored, is."""
    acknowledged, lock, failures = set(), threading.Lock(), []
    enough = threading.Event()

    def produce():
        with server.client() as client:
            while True:
                try:
                    task_id = client.enqueue("q", b"x")
                except millrace.Unavailable:
                    return
                except Exception as error:  # noqa: BLE001
                    failures.append(error)
                    return
                with lock:
                    acknowledged.add(task_id)
                    if len(acknowledged) > 200:
                        enough.set()

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    assert server.terminate() == 0
    for thread in threads:
        thread.join(60)
    assert failures == []
    server.start()
    with server.client() as client:
        assert acknowledged <= {t.task_id for t in client.peek("q", page_size=1000)}


def test_a_second_server_on_the_same_folder_is_refused(server, make_server):
    with server.client() as client:
        client.enqueue("q", b"x")
        second = make_server(data_dir=server.data_dir)
        with pytest.raises(StartError) as caught:
            second.start()
        assert caught.value.exit_code not in (0, -signal.SIGABRT, -signal.SIGSEGV)
        assert str(server.data_dir) in caught.value.output
        assert "in use" in caught.value.output or "another process" in caught.value.output
        # The first one does not notice.
        client.enqueue("q", b"y")
        assert client.describe("q").counts.accepted == 2


def test_a_folder_that_cannot_be_made(make_server, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    server = make_server(data_dir=tmp_path / "file" / "data")
    with pytest.raises(StartError) as caught:
        server.start()
    assert caught.value.exit_code > 0
    assert str(tmp_path / "file") in caught.value.output


def test_a_port_in_use(server, make_server):
    second = make_server()
    second.address = server.address
    with pytest.raises(StartError) as caught:
        second.start()
    assert caught.value.exit_code > 0
    assert server.address in caught.value.output


@pytest.mark.parametrize(
    "flags",
    [
        ["--no-such-flag"],
        ["--limits-lease-max", "soon"],
        ["--log-level", "loud"],
        ["--event-loops", "-1"],
        ["--config", "/no/such/file.yaml"],
    ],
    ids=lambda flags: flags[0],
)
def test_wrong_flags_are_usage_errors(binary, tmp_path, flags):
    done = subprocess.run([binary, "server", "--data-dir", tmp_path / "data", *flags], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode in (1, 2, 3)
    assert flags[0].lstrip("-") in done.stderr or flags[-1] in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("flag", ["--listen", "--admin-listen"])
def test_addresses_that_are_none(make_server, flag):
    server = make_server()
    if flag == "--listen":
        server.address = "nonsense"
    else:
        server.admin = "nonsense"
    with pytest.raises(StartError) as caught:
        server.start()
    assert caught.value.exit_code in (1, 2)
    assert "nonsense" in caught.value.output and flag[2:].replace("-", ".") in caught.value.output


def test_an_unknown_key_in_a_config_file(binary, tmp_path):
    (tmp_path / "config.yaml").write_text("limits:\n  lease_maxx: 1h\n")
    done = subprocess.run([binary, "server", "--data-dir", tmp_path / "data", "--config", tmp_path / "config.yaml"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "lease_maxx" in done.stderr and "lease_max" in done.stderr and "2" in done.stderr


def test_a_folder_of_a_newer_version_is_refused_untouched(server):
    with server.client() as client:
        client.enqueue("q", b"x")
    assert server.terminate() == 0
    marker = format_marker(server.data_dir)
    text = marker.read_text()
    newer = change_version(text, 1000)
    marker.write_text(newer)
    before = fingerprint(server.data_dir)
    with pytest.raises(StartError) as caught:
        server.start()
    assert caught.value.exit_code > 0
    assert "1000" in caught.value.output and str(server.data_dir) in caught.value.output
    assert fingerprint(server.data_dir) == before
    marker.write_text(text)
    server.start()
    with server.client() as client:
        assert client.describe("q").counts.waiting == 1


def test_a_folder_of_something_else_is_refused_untouched(make_server, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "letters.txt").write_text("dear reader")
    server = make_server(data_dir=data)
    with pytest.raises(StartError) as caught:
        server.start()
    assert caught.value.exit_code > 0 and str(data) in caught.value.output
    assert os.listdir(data) == ["letters.txt"]


def format_marker(data_dir):
    """The small text file that names the format version."""
    found = [p for p in data_dir.iterdir() if p.is_file() and p.stat().st_size < 4096
             and b"format" in p.read_bytes().lower()]
    assert len(found) == 1, sorted(data_dir.iterdir())
    return found[0]


def change_version(text, version):
    changed, count = re.subn(r"\d+", str(version), text, count=1)
    assert count == 1
    return changed


def fingerprint(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name not in ("LOCK",)}


def store_files(data_dir, suffix):
    return sorted(p for p in data_dir.rglob(f"*{suffix}") if p.stat().st_size > 0)


def test_a_torn_tail_is_recovered_and_said(server):
    """The last write was cut short by a power failure: everything before it is there."""
    with server.client() as client:
        for i in range(50):
            client.enqueue("q", b"%d" % i)
    server.kill()
    log = store_files(server.data_dir, ".log")[-1]
    with open(log, "r+b") as file:
        file.truncate(log.stat().st_size - 3)
    server.start()
    with server.client() as client:
        payloads = [t.data for t in client.peek("q", page_size=1000)]
        assert payloads == [b"%d" % i for i in range(len(payloads))]
        assert len(payloads) >= 48
        assert client.describe("q").counts.conserved
        client.enqueue("q", b"after")
        assert client.lease("q", wait=0)[0].data == b"0"


def test_damage_in_the_middle_is_refused_with_a_clear_word(server):
    """Bytes that changed inside what was acknowledged: better no server than a wrong one."""
    with server.client() as client:
        client.enqueue_many("q", [os.urandom(2000) for _ in range(500)])
        for i in range(50):
            client.enqueue("q", os.urandom(2000))
    server.kill()
    log = store_files(server.data_dir, ".log")[-1]
    data = bytearray(log.read_bytes())
    for i in range(len(data) // 3, len(data) // 3 + 64):
        data[i] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(StartError) as caught:
        server.start()
    assert caught.value.exit_code > 0
    assert str(server.data_dir) in caught.value.output
    assert any(word in caught.value.output.lower() for word in ("damaged", "corrupt"))


def test_dev_needs_nothing_and_leaves_nothing(binary, tmp_path):
    ready = tmp_path / "ready.json"
    process = subprocess.Popen(
        [binary, "server", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--ready-file", ready],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        wait_until(lambda: ready.exists() and ready.read_text(), "the server is ready")
        with millrace.Client(json.loads(ready.read_text())["grpc"]) as client:
            client.enqueue("q", b"x")
        process.terminate()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert [p.name for p in tmp_path.iterdir()] == []
