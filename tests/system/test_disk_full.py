"""A disk that is full, or fails: every put fails with the right code, health says so, and it heals without a restart."""

import os
import pathlib
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import millrace
from harness import wait_until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health(server):
    with grpc.insecure_channel(server.address) as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10).status


def put_until_refused(client, payload):
    """Enqueues until one fails; returns the ids that were acknowledged and the error."""
    ids = []
    while True:
        try:
            ids.append(client.enqueue("q", payload, timeout=30))
        except millrace.MillraceError as error:
            return ids, error


def check_while_full(server, client):
    wait_until(lambda: server.http("/readyz")[0] == 503, "not ready")
    assert health(server) == NOT_SERVING
    assert server.http("/livez")[0] == 200
    for _ in range(5):
        # Every single one, never memory only.
        with pytest.raises(millrace.Unavailable) as caught:
            client.enqueue("q", b"refused", timeout=30)
        assert caught.value.reason in ("STORE_READ_ONLY", "OUTCOME_UNKNOWN"), caught.value
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        assert caught.value.retry_after is not None
    # Looking still works.
    assert client.describe("q").counts.waiting > 0


def check_healed(server, client, acknowledged):
    pid = server.pid

    def enqueue():
        try:
            return client.enqueue("q", b"healed", timeout=30)
        except millrace.Unavailable:
            return None

    acknowledged.append(wait_until(enqueue, "it takes tasks again"))
    wait_until(lambda: server.http("/readyz")[0] == 200, "ready again")
    assert health(server) == SERVING
    assert server.running and server.pid == pid
    stored = {t.task_id: t for t in client.peek("q", payloads=False)}
    assert set(acknowledged) <= set(stored)
    # Work that was stored can be done, and stays done.
    tasks = client.lease("q", 5, wait=0)
    assert client.complete_many("q", [t.lease_token for t in tasks]) == [None] * len(tasks)
    assert client.describe("q").counts.conserved
    server.restart()
    with server.client() as after:
        left = {t.task_id for t in after.peek("q", payloads=False)}
        assert set(acknowledged) - {t.task_id for t in tasks} <= left
        assert not left & {t.task_id for t in tasks}
        counts = after.describe("q").counts
        assert counts.conserved and counts.done == len(tasks) and counts.waiting == len(left)


def test_writes_that_fail(server):
    with server.client() as client:
        acknowledged = [client.enqueue("q", b"before") for _ in range(10)]
        server.limit_files(1)
        more, error = put_until_refused(client, b"x" * 1000)
        assert isinstance(error, millrace.Unavailable), error
        check_while_full(server, client)
        server.limit_files(-1)
        check_healed(server, client, acknowledged + more)


def test_completing_while_writes_fail_is_refused_and_done_later(server):
    """A completion that cannot be made durable is not acknowledged; the lease stays good for another try."""
    with server.client() as client:
        client.enqueue_many("q", [b"a", b"b"])
        task, other = client.lease("q", 2, lease_duration=3600, wait=0)
        server.limit_files(1)
        wait_until(lambda: server.http("/readyz")[0] == 503 or isinstance(put_until_refused(client, b"x")[1],
                                                                          millrace.Unavailable), "writes fail")
        with pytest.raises(millrace.Unavailable):
            client.complete(task)
        server.limit_files(-1)

        def complete():
            try:
                client.complete(task)
                return "done"
            except millrace.LeaseLost:
                return "done before"
            except millrace.Unavailable:
                return None

        wait_until(complete, "the completion goes through")
        assert client.describe("q").counts.done == 1
        with pytest.raises(millrace.LeaseLost):
            client.complete(task)
    server.restart()
    with server.client() as client:
        counts = client.describe("q").counts
        assert counts.conserved and counts.done == 1
        seen = [t.task_id for t in client.lease("q", 100, wait=0)]
        assert task.task_id not in seen


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB, for root."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(path)], capture_output=True,
                             text=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.disk_full
def test_a_full_disk(small_disk: pathlib.Path, make_server):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(12 << 20))
    server = make_server(data_dir=small_disk / "data").start()
    with server.client() as client:
        acknowledged, error = put_until_refused(client, os.urandom(100_000))
        assert acknowledged
        assert isinstance(error, millrace.Unavailable), error
        check_while_full(server, client)
        ballast.unlink()
        check_healed(server, client, acknowledged)
    server.close()
