"""A disk that fails in every way: nothing is acknowledged that is not on it, every answer has the right code, health
says so, it heals without a restart, and what was acknowledged is there after a crash, in the middle of the fault too."""

from __future__ import annotations

import contextlib
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import disk_faults
import harness
import millrace
from harness import wait_until
from history.workload import rows_of

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

# Those in which no write can succeed.
FATAL = ["disk full", "disk full, torn write", "disk write errors", "disk write errors, torn", "disk sync errors",
         "disk loses unsynced", "disk read-only", "disk quota"]


@pytest.fixture
def on_disk(tmp_path, binary):
    """A running server and its disk."""
    if not disk_faults.library(binary).exists():
        pytest.skip("this build has no disk that can fail (a sanitizer build has none)")
    server, disk = disk_faults.make_server(tmp_path, "--limits-lease-min", "100ms", binary=binary)
    with harness.running(server):
        yield server, disk


def health(server):
    with grpc.insecure_channel(server.address) as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30).status


def put(client, payload=b"x", queue="q"):
    """The id, or the error."""
    try:
        return client.enqueue(queue, payload, timeout=60)
    except millrace.MillraceError as error:
        return error


def check_error(error, *, item=False):
    assert isinstance(error, millrace.Unavailable), error
    assert error.code is grpc.StatusCode.UNAVAILABLE
    assert error.reason in ("STORE_READ_ONLY", "OUTCOME_UNKNOWN"), error
    assert item or error.retry_after is not None


def audit(server, acknowledged, finished, sent=None):
    """What is stored is what was promised: all that was acknowledged and not finished, at most what was sent besides."""
    with server.client() as client:
        wait_until(lambda: not isinstance(put(client, queue="probe"), millrace.MillraceError), "it takes tasks")
        stored = {task.task_id: task.data for task in client.peek("q", page_size=1000)}
    counts, rows = rows_of(server.address, "q")
    assert acknowledged - finished <= set(stored), f"lost: {sorted(acknowledged - finished - set(stored))}"
    assert not finished & set(stored)
    payloads = list(stored.values())
    assert sent is None or (set(payloads) <= sent and len(set(payloads)) == len(payloads))
    assert rows["accepted"] == rows["done"] + rows["task_rows"] + rows["dead"] + rows["dropped"], rows
    assert rows["task_rows"] == len(stored) and rows["done"] == len(finished) == counts["done"], (rows, counts)


@pytest.mark.parametrize("name", FATAL)
def test_while_it_fails_and_after(on_disk, name):
    server, disk = on_disk
    pid = server.pid
    with server.client(timeout=60) as client:
        acknowledged = {r.task_id for r in client.enqueue_many("q", [b"%d" % i for i in range(20)])}
        held = client.lease("q", 5, lease_duration=3600, wait=0)
        with disk.fault(name):
            check_error(wait_until(lambda: (lambda r: r if isinstance(r, Exception) else None)(put(client)), "refused"))
            wait_until(lambda: server.http("/readyz")[0] == 503, "not ready")
            assert health(server) == NOT_SERVING
            assert server.http("/livez")[0] == 200
            for queue in ("q", "new", "q"):
                # Every single one, in a queue that is there and in a new one.
                check_error(put(client, queue=queue))
            # Nothing ends: not acknowledged, and not forgotten either.
            for call in (client.complete, client.fail, client.release):
                with pytest.raises(millrace.Unavailable) as caught:
                    call(held[0])
                check_error(caught.value, item=True)
            # What is stored can be looked at, while the store does not try to open its files again.
            wait_until(lambda: can_look(client), "it can be looked at")
            # Handing out needs no write; whatever is handed out is a task that was acknowledged.
            with contextlib.suppress(millrace.Unavailable):
                for task in client.lease("q", 3, lease_duration=0.1, wait=0):
                    assert task.task_id in acknowledged
            assert disk.get("faults") > 0
        wait_until(lambda: not isinstance(put(client, queue="probe"), millrace.MillraceError), "it takes tasks again")
        wait_until(lambda: server.http("/readyz")[0] == 200, "ready again")
        assert health(server) == SERVING
        assert server.running and server.pid == pid
        finished = finish(client, held)
    audit(server, acknowledged, finished)
    server.restart()
    audit(server, acknowledged, finished)


def can_look(client):
    try:
        client.describe("q")
        return len(list(client.peek("q"))) >= 15
    except millrace.Unavailable:
        return False


def finish(client, tasks):
    """Completes leased tasks; the leases are good still, whatever failed before."""
    left = {task.lease_token for task in tasks}

    def complete():
        with contextlib.suppress(millrace.Unavailable):
            tokens = sorted(left)
            for token, error in zip(tokens, client.complete_many("q", tokens)):
                assert error is None or isinstance(error, millrace.Unavailable), error
                if error is None:
                    left.discard(token)
        return not left

    wait_until(complete, "completed")
    return {task.task_id for task in tasks}


class Producers:
    """Threads that enqueue, each task once, and keep count of what was acknowledged."""

    def __init__(self, server, count=6):
        self.acknowledged: set[str] = set()
        self.sent: set[bytes] = set()
        self.codes: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._server = server
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number):
        with self._server.client(timeout=60) as client:
            for i in range(1_000_000):
                if self._stop.is_set():
                    return
                payload = b"%d-%d" % (number, i)
                with self._lock:
                    self.sent.add(payload)
                result = put(client, payload)
                with self._lock:
                    if isinstance(result, millrace.MillraceError):
                        self.codes.add(result.code.name)
                    else:
                        self.acknowledged.add(result)

    def wait_for(self, more):
        goal = len(self.acknowledged) + more
        wait_until(lambda: len(self.acknowledged) >= goal, f"{more} more tasks")

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()


@pytest.mark.parametrize("name", FATAL)
def test_killed_while_it_fails(on_disk, name):
    server, disk = on_disk
    producers = Producers(server)
    producers.wait_for(100)
    disk.set(**disk_faults.FAULTS[name])
    wait_until(lambda: disk.get("faults") > 0, "a fault")
    server.kill()
    producers.stop()
    disk.heal()
    assert producers.codes <= {"UNAVAILABLE", "CANCELLED"}
    server.start()
    audit(server, producers.acknowledged, set(), producers.sent)


@pytest.mark.parametrize("lose", [0, 1])
def test_one_failed_sync_ends_the_log(on_disk, lose):
    """The next sync of that file would succeed, and prove nothing: the pages may be gone. Whoever is told ok must find
    the task after a crash."""
    server, disk = on_disk
    producers = Producers(server)
    for _ in range(3):
        producers.wait_for(50)
        disk.set(sync_error=5, lose_unsynced=lose, log_only=1, most=1)
        wait_until(lambda: disk.get("faults") == 1, "the failed sync")
        producers.wait_for(50)
        disk.heal()
    server.kill()
    producers.stop()
    server.start()
    audit(server, producers.acknowledged, set(), producers.sent)


@pytest.mark.parametrize("name", ["disk full, torn write", "disk write errors", "disk loses unsynced"])
@pytest.mark.parametrize("skip", [0, 1, 4])
def test_a_fault_that_passes(on_disk, name, skip):
    """A single failing call, wherever it strikes: opening the store again included."""
    server, disk = on_disk
    producers = Producers(server, 3)
    producers.wait_for(20)
    with disk.fault(name, skip=skip, most=1 + skip % 3):
        producers.wait_for(50)
    server.kill()
    producers.stop()
    server.start()
    audit(server, producers.acknowledged, set(), producers.sent)


@pytest.mark.parametrize("name", ["disk slow", "disk writes little at a time"])
def test_what_is_no_failure(on_disk, name):
    server, disk = on_disk
    with disk.fault(name), server.client(timeout=60) as client:
        writes = disk.get("writes")
        acknowledged = {client.enqueue("q", b"%d" % i) for i in range(10)}
        held = client.lease("q", 4, lease_duration=3600, wait=0)
        finished = finish(client, held)
        assert server.http("/readyz")[0] == 200 and health(server) == SERVING
        assert disk.get("writes") > writes
    server.restart()
    audit(server, acknowledged, finished)


def test_reads_that_fail(on_disk):
    """A queue that cannot be read is unavailable, not empty and not unknown; it is there when reading works."""
    server, disk = on_disk
    with server.client() as client:
        acknowledged = {r.task_id for r in client.enqueue_many("q", [b"x" * 1000] * 50)}
    # The next start writes what is in the log into a table; the one after it has to read that.
    server.restart()
    server.restart()
    with server.client(timeout=60) as client:
        with disk.fault("disk slow", delay_us=0, read_error=5):
            with pytest.raises(millrace.Unavailable):
                list(client.peek("q"))
            with pytest.raises(millrace.Unavailable):
                client.lease("q", wait=0)
            assert disk.get("faults") > 0
        wait_until(lambda: not isinstance(put(client, queue="probe"), millrace.MillraceError), "it takes tasks")
        tasks = client.lease("q", 1000, lease_duration=3600, wait=5)
        assert {task.task_id for task in tasks} == acknowledged


@pytest.mark.parametrize("name", ["disk full", "disk write errors", "disk sync errors", "disk read-only"])
def test_starting_on_it(on_disk, name):
    """A start that cannot write says so and ends; it spoils nothing."""
    server, disk = on_disk
    with server.client() as client:
        acknowledged = {r.task_id for r in client.enqueue_many("q", [b"%d" % i for i in range(20)])}
    server.kill()
    with disk.fault(name):
        with pytest.raises(harness.StartError) as caught:
            server.start()
    assert caught.value.exit_code > 0
    assert str(server.data_dir) in caught.value.output
    server.start()
    audit(server, acknowledged, set())
