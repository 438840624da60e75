"""The matching service of the real binary, with a history service of the test's own: bytes in, bytes out."""

from __future__ import annotations

import concurrent.futures
import pathlib
import threading
from typing import Iterator

import grpc
import pytest

import harness

NAMESPACE = "0a1b2c3d-0000-4000-8000-000000000001"
MATCHING = "/temporal.server.api.matchingservice.v1.MatchingService/"
HISTORY = "/temporal.server.api.historyservice.v1.HistoryService/"


def field(number: int, value: bytes | str | int) -> bytes:
    """One field of a message, for values below 128 bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    raw = value.encode() if isinstance(value, str) else value
    assert len(raw) < 128 and number < 16
    return bytes([number << 3 | 2, len(raw)]) + raw


QUEUE = field(1, "q") + field(2, 1)


def add_request(workflow: str) -> bytes:
    return field(1, NAMESPACE) + field(2, field(1, workflow) + field(2, "run")) + field(3, QUEUE) + field(4, 2)


POLL = field(1, NAMESPACE) + field(3, field(1, "space") + field(2, QUEUE) + field(3, "worker"))


class History(grpc.GenericRpcHandler):
    """Starts every task, and notes the bytes of each request."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[self])
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method != HISTORY + "RecordWorkflowTaskStarted":
            return None
        return grpc.unary_unary_rpc_method_handler(self._start)

    def _start(self, request: bytes, _context: grpc.ServicerContext) -> bytes:
        self.requests.append(request)
        return field(3, 2) + field(4, 3) + field(6, 1)

    def close(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def history() -> Iterator[History]:
    history = History()
    yield history
    history.close()


@pytest.fixture
def server(tmp_path: pathlib.Path, history: History) -> Iterator[harness.Server]:
    server = harness.Server(tmp_path, "--temporal-enabled=true", "--temporal-history-hosts",
                            f"127.0.0.1:{history.port}", "--temporal-history-shards", "4")
    server.start()
    yield server
    server.close()


def call(channel: grpc.Channel, method: str, request: bytes, timeout: float = 30.0) -> bytes:
    return channel.unary_unary(MATCHING + method)(request, timeout=timeout, wait_for_ready=True)


def test_a_stored_task_survives_sigkill_and_comes_to_a_poll_once(server: harness.Server, history: History) -> None:
    with grpc.insecure_channel(server.address) as channel:
        for workflow in ("w1", "w2"):
            call(channel, "AddWorkflowTask", add_request(workflow))
    server.kill()
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        got = [call(channel, "PollWorkflowTaskQueue", POLL) for _ in range(2)]
        assert [b"w1" in got[0], b"w2" in got[1]] == [True, True]
        assert call(channel, "PollWorkflowTaskQueue", POLL, timeout=2.0) == b""
    assert len(history.requests) == 2
    # The worker's request passes through as it came.
    assert all(field(1, "space") + field(2, QUEUE) + field(3, "worker") in request for request in history.requests)


def test_a_waiting_poll_gets_a_new_task(server: harness.Server, history: History) -> None:
    with grpc.insecure_channel(server.address) as channel, concurrent.futures.ThreadPoolExecutor(1) as pool:
        polling = threading.Event()

        def poll() -> bytes:
            polling.set()
            return call(channel, "PollWorkflowTaskQueue", POLL)

        answer = pool.submit(poll)
        polling.wait()
        call(channel, "AddWorkflowTask", add_request("w1"))
        assert b"w1" in answer.result(timeout=harness.PATIENCE)
    assert len(history.requests) == 1


def test_health_answers_to_the_name_that_temporal_asks_for(server: harness.Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        for name in ("temporal.api.workflowservice.v1.MatchingService", MATCHING.strip("/")):
            assert check(field(1, name), timeout=30.0, wait_for_ready=True) == field(1, 1)


def test_what_is_not_served_says_so(server: harness.Server) -> None:
    with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError) as error:
        call(channel, "QueryWorkflow", b"")
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "QueryWorkflow" in error.value.details()


@pytest.mark.parametrize("flags, what", [
    ([], "temporal.history_shards"),
    (["--temporal-history-shards", "4"], "temporal.history_hosts"),
    (["--temporal-history-shards", "4", "--temporal-history-hosts", "nonsense"], "temporal.history_hosts"),
])
def test_settings_that_do_not_go_together_stop_the_start(tmp_path: pathlib.Path, flags: list[str], what: str) -> None:
    with pytest.raises(harness.StartError) as error:
        harness.Server(tmp_path, "--temporal-enabled=true", *flags).start()
    assert what in error.value.output
