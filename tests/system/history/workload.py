"""Concurrent clients of every kind of call, each of which writes down what it asked and what it heard."""

from __future__ import annotations

import collections
import random
import threading
import time
from typing import Any, Callable

import grpc

import millrace
from millrace import errors as millrace_errors
from millrace.v1 import queue_pb2, queue_pb2_grpc

from .records import Call, Granted, Kind, Outcome, Seen, Sent, Settled

QUEUES = ("orders", "short/leases", "mail", "expiring")
EXPIRING = "expiring"
# Queues that a run makes as it goes.
_NEW_QUEUES = tuple(f"new-{number}" for number in range(12))
_CALL_TIMEOUT = 2.0
_OLD_TOKENS = 400
_NO_RETRIES = (("grpc.enable_retries", 0),)


class Recorder:
    """Calls of all clients. Threads: any."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.surprises: list[str] = []

    def record(self, call: Call) -> Call:
        self.calls.append(call)
        return call

    def surprise(self, text: str) -> None:
        """An answer that no fault of the plan explains."""
        self.surprises.append(text)


def outcome_of(error: millrace.MillraceError | None) -> Outcome:
    if error is None:
        return Outcome.OK
    return Outcome.NO if error.surely_not_done else Outcome.UNKNOWN


class Caller:
    """One client: makes calls and records them."""

    def __init__(self, name: str, address: str, recorder: Recorder):
        self.name = name
        self._client = millrace.Client(address, timeout=_CALL_TIMEOUT, options=_NO_RETRIES)
        # The client does not ask for row counts.
        self._channel = grpc.insecure_channel(address, options=_NO_RETRIES)
        self._looking = queue_pb2_grpc.QueueServiceStub(self._channel)
        self._recorder = recorder
        self._sent = 0

    def close(self) -> None:
        self._client.close()
        self._channel.close()

    def _run(self, kind: Kind, queue: str, body: Callable[[], Any]) -> tuple[Call, Any]:
        """Calls and records. The result is None when the call failed."""
        call = Call(kind, queue, time.monotonic(), 0.0, Outcome.OK, client=self.name)
        result = None
        try:
            result = body()
        except millrace.QueueNotFound:
            call.outcome = Outcome.NO
        except millrace.MillraceError as error:
            call.outcome = outcome_of(error)
            if isinstance(error, (millrace.InvalidArgument, millrace.ServerFault)):
                self._recorder.surprise(f"{kind.value}: {error}")
        call.returned = time.monotonic()
        return call, result

    def enqueue(self, queue: str, count: int, max_attempts: int, time_to_live: float | None) -> None:
        payloads = []
        for _ in range(count):
            self._sent += 1
            payloads.append(f"{self.name}-{self._sent}")
        tasks = [millrace.NewTask(payload.encode(), max_attempts=max_attempts, time_to_live=time_to_live)
                 for payload in payloads]
        call, results = self._run(Kind.ENQUEUE, queue, lambda: self._client.enqueue_many(queue, tasks))
        for number, payload in enumerate(payloads):
            if results is None:
                sent = Sent(payload, call.outcome)
            else:
                sent = Sent(payload, outcome_of(results[number].error), results[number].task_id)
            sent.max_attempts, sent.time_to_live = max_attempts, time_to_live
            call.sent.append(sent)
        self._recorder.record(call)

    def lease(self, queue: str, count: int, duration: float, wait: float) -> list[Granted]:
        call, tasks = self._run(Kind.LEASE, queue, lambda: self._client.lease(
            queue, count, lease_duration=duration, wait=wait, worker_id=self.name))
        for task in tasks or ():
            call.granted.append(Granted(task.task_id, task.lease_token.hex(), task.data.decode(), task.attempt,
                                        task.max_attempts, task.lease_duration))
        self._recorder.record(call)
        return call.granted

    def settle(self, kind: Kind, queue: str, tokens: list[str], *, permanent: bool = False,
               duration: float = 0.0) -> list[Outcome]:
        raw = [bytes.fromhex(token) for token in tokens]
        bodies = {
            Kind.COMPLETE: lambda: self._client.complete_many(queue, raw),
            Kind.RELEASE: lambda: self._client.release_many(queue, raw),
            Kind.EXTEND: lambda: self._client.extend_many(queue, raw, duration),
            Kind.FAIL: lambda: self._client.fail_many(
                queue, [millrace.FailItem(token, "no luck", permanent) for token in raw]),
        }
        call, errors = self._run(kind, queue, bodies[kind])
        for number, token in enumerate(tokens):
            error = errors[number] if errors is not None else None
            outcome = call.outcome if errors is None else outcome_of(error)
            call.settled.append(Settled(token, outcome, isinstance(error, millrace.LeaseLost), permanent, duration))
        self._recorder.record(call)
        return [item.outcome for item in call.settled]

    def peek(self, queue: str, state: millrace.TaskState | None = None) -> None:
        call, tasks = self._run(Kind.PEEK, queue, lambda: list(
            self._client.peek(queue, state, payloads=False, page_size=200)))
        call.seen = [Seen(task.task_id, task.state.name.lower(), task.attempt) for task in tasks or ()]
        self._recorder.record(call)

    def describe(self, queue: str, *, rows: bool = False) -> dict[str, int] | None:
        request = queue_pb2.DescribeRequest(queue=queue, count_rows=rows)
        call, reply = self._run(Kind.DESCRIBE, queue, lambda: self._describe(request))
        if reply is not None:
            call.counts = _numbers(reply.queue.counts)
            call.rows = _numbers(reply.queue.row_counts) if rows else {}
        self._recorder.record(call)
        return call.counts or None


    def _describe(self, request: queue_pb2.DescribeRequest) -> queue_pb2.DescribeResponse:
        try:
            return self._looking.Describe(request, timeout=_CALL_TIMEOUT)
        except grpc.RpcError as error:
            raise millrace_errors.from_rpc(error) from error


class Workload:
    """Producers, workers and onlookers, each a thread with a random generator of its own from `seed`.

    Old tokens of everybody are shared, so that many calls with stale tokens come from clients that never held the lease.
    """

    def __init__(self, addresses: list[str], recorder: Recorder, seed: int, *, producers: int = 3, workers: int = 7):
        self._recorder = recorder
        self._stop = threading.Event()
        self._old: collections.deque[tuple[str, str]] = collections.deque(maxlen=_OLD_TOKENS)
        self._threads = []
        self.failures: list[BaseException] = []
        roles = [("p", self._produce)] * producers + [("w", self._work)] * workers + [("o", self._look)]
        for number, (letter, role) in enumerate(roles):
            caller = Caller(f"{letter}{number}", addresses[number % len(addresses)], recorder)
            rng = random.Random(f"{seed}/{number}")
            self._threads.append(threading.Thread(target=self._guard, args=(role, caller, rng), daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, patience: float = 120) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(patience)
            assert not thread.is_alive(), "a client did not end"
        assert not self.failures, self.failures

    def _guard(self, role: Callable[[Caller, random.Random], None], caller: Caller, rng: random.Random) -> None:
        try:
            role(caller, rng)
        except BaseException as error:  # noqa: BLE001 - shown by stop()
            self.failures.append(error)
        finally:
            caller.close()

    @staticmethod
    def _queue(rng: random.Random) -> str:
        return rng.choice(_NEW_QUEUES if rng.random() < 0.06 else QUEUES)

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _produce(self, caller: Caller, rng: random.Random) -> None:
        while not self._stop.is_set():
            queue = self._queue(rng)
            caller.enqueue(queue, rng.choice((1, 1, 2, 5, 20)), rng.choice((0, 0, 0, 1, 2, 3)),
                           rng.choice((None, 1.0, 5.0)) if queue == EXPIRING else None)
            self._pause(rng.random() * 0.06)

    def _work(self, caller: Caller, rng: random.Random) -> None:
        held: list[tuple[str, str]] = []
        while not self._stop.is_set():
            queue = self._queue(rng)
            short = queue.startswith("short") or rng.random() < 0.15
            duration = 0.1 + rng.random() * 0.3 if short else 3.0 + rng.random() * 5
            granted = caller.lease(queue, rng.choice((1, 3, 10, 30)), duration, rng.choice((0, 0.2, 0.5)))
            tokens = [grant.token for grant in granted]
            self._old.extend((queue, token) for token in tokens)
            self._treat(caller, rng, queue, tokens, held)
            if held and rng.random() < 0.5:
                late_queue, token = held.pop(0)
                caller.settle(Kind.COMPLETE, late_queue, [token])
            if self._old and rng.random() < 0.15:
                self._meddle(caller, rng)
            if not granted:
                self._pause(0.02)

    def _treat(self, caller: Caller, rng: random.Random, queue: str, tokens: list[str],
               held: list[tuple[str, str]]) -> None:
        """Splits a reply's tasks among what can become of them."""
        fates: dict[str, list[str]] = collections.defaultdict(list)
        for token in tokens:
            fates[rng.choices(("complete", "twice", "fail", "dead", "release", "extend", "forget", "late"),
                              (50, 10, 10, 3, 8, 10, 3, 6))[0]].append(token)
        for fate, some in fates.items():
            if fate == "complete":
                caller.settle(Kind.COMPLETE, queue, some)
            elif fate == "twice":
                caller.settle(Kind.COMPLETE, queue, some)
                caller.settle(rng.choice((Kind.COMPLETE, Kind.RELEASE, Kind.FAIL)), queue, some)
            elif fate in ("fail", "dead"):
                caller.settle(Kind.FAIL, queue, some, permanent=fate == "dead")
            elif fate == "release":
                caller.settle(Kind.RELEASE, queue, some)
            elif fate == "extend":
                caller.settle(Kind.EXTEND, queue, some, duration=rng.choice((0.1, 1.0, 6.0)))
                self._pause(rng.random() * 0.2)
                caller.settle(Kind.COMPLETE, queue, some)
            elif fate == "late":
                held.extend((queue, token) for token in some)

    def _meddle(self, caller: Caller, rng: random.Random) -> None:
        """With a token of the past, most likely another client's."""
        queue, token = self._old[rng.randrange(len(self._old))]
        kind = rng.choice((Kind.COMPLETE, Kind.COMPLETE, Kind.FAIL, Kind.RELEASE, Kind.EXTEND))
        caller.settle(kind, queue, [token], duration=5.0 if kind is Kind.EXTEND else 0.0)

    def _look(self, caller: Caller, rng: random.Random) -> None:
        while not self._stop.is_set():
            queue = self._queue(rng)
            caller.describe(queue, rows=rng.random() < 0.2)
            if rng.random() < 0.3:
                caller.peek(queue, rng.choice((None, millrace.TaskState.DEAD)))
            self._pause(0.05)


def _numbers(message: Any) -> dict[str, int]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def rows_of(address: str, queue: str) -> tuple[dict[str, int], dict[str, int]]:
    """Counts of a queue, and what a count of its stored rows finds."""
    with grpc.insecure_channel(address) as channel:
        request = queue_pb2.DescribeRequest(queue=queue, count_rows=True)
        info = queue_pb2_grpc.QueueServiceStub(channel).Describe(request, timeout=60, wait_for_ready=True).queue
    return _numbers(info.counts), _numbers(info.row_counts)
