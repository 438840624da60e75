"""Runs a handler for the tasks of one queue."""

from __future__ import annotations

import collections
import logging
import os
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable

from . import errors
from .backoff import Backoff
from .client import Client, PendingLease
from .codec import Codec
from .job import Job, Outcome
from .keeper import LeaseKeeper
from .settler import Settlement, Settler
from .types import LeasedTask, Seconds, to_seconds

_log = logging.getLogger("millrace.worker")
# A long poll's wait. Shorter when the worker ends with the queue, so that the end is noticed soon.
_POLL_WAIT = 30.0
_POLL_WAIT_UNTIL_EMPTY = 1.0
# After the grace period: for handlers to see the cancel signal, and for the last calls to the server.
_CANCEL_GRACE = 1.0
_SETTLE_GRACE = 10.0


@dataclass
class WorkerStats:
    """What a worker did: how many holds ended in each way."""

    outcomes: collections.Counter[Outcome] = field(default_factory=collections.Counter)
    # Handler calls that raised.
    handler_errors: int = 0
    # Calls to the server that failed and were tried again later.
    poll_errors: int = 0

    @property
    def completed(self) -> int:
        return self.outcomes[Outcome.COMPLETED]


class Worker:
    """Leases tasks of one queue, runs `handler(job)` for each on a pool of threads, and settles them.

    A handler that returns completes its task. One that raises fails it: the exception's text goes with the task, which
    is tried again until its attempts are used up; PermanentError sets it aside at once. Leases are extended at a third
    of their duration for as long as the handler runs; when one is lost, `job.cancelled` turns true.

    Through a server restart the worker goes on by itself: calls are repeated with growing, jittered waits, and what
    the handlers finished meanwhile is settled when the server is back. Each task's end is reported once to `on_settled`.

    Stopping: stop() ends polling, lets running handlers finish for `grace` seconds, then signals them to cancel, and
    releases every task that was not finished, so that no attempt is charged.

    Threads: run() blocks its caller; stop() may be called from any thread and from signal handlers. `slots` handler
    threads, one that extends and one that settles. `on_settled` is called on the latter and should be quick.
    Bounds: at most `slots` tasks wait or run, and at most as many again (but four times, for small batches) wait for
    their last call.
    """

    def __init__(
        self,
        client: Client | str,
        queue: str,
        handler: Callable[[Job], Any],
        *,
        slots: int = 4,
        lease_duration: Seconds = 30.0,
        codec: Codec | None = None,
        worker_id: str | None = None,
        until_empty: bool = False,
        grace: Seconds = 30.0,
        on_settled: Callable[[Job, Outcome], None] | None = None,
        rng: random.Random | None = None,
    ):
        """`client` may be an address: the worker then makes its own client, and closes it when run() ends.
        `lease_duration` (1 s to 12 h) is how long the server waits for a sign of life before it gives a task to
        somebody else. `codec` decodes payloads, default: the client's. `until_empty`: run() returns when nothing waits
        in the queue and nobody holds a task of it."""
        if slots < 1:
            raise ValueError("slots must be at least 1")
        self._owns_client = isinstance(client, str)
        if isinstance(client, str):
            client = Client(client)
        self._client = client
        self._queue = queue
        self._handler = handler
        self._slots = slots
        self._lease_duration = to_seconds(lease_duration)
        self._codec = codec or client.codec
        self._worker_id = worker_id or f"{socket.gethostname()}:{os.getpid()}"
        self._until_empty = until_empty
        self._grace = to_seconds(grace)
        self._on_settled = on_settled
        rng = rng or random.Random()
        self._poll_backoff = Backoff(rng=rng)
        self._settler = Settler(client, queue, self._settled, Backoff(rng=rng))
        self._keeper = LeaseKeeper(client, queue, self._lease_duration, Backoff(rng=rng))
        self.stats = WorkerStats()

        self._stopping = threading.Event()
        # Guards all below, and wakes whoever waits for a change of it.
        self._cond = threading.Condition()
        self._poll: PendingLease | None = None
        self._queued: collections.deque[Job] = collections.deque()
        # Jobs in a handler, by token.
        self._running: dict[bytes, Job] = {}
        # Settlements the server has not answered yet.
        self._settling = 0
        # No more jobs will be queued: handler threads end.
        self._slots_closed = False

    def run(self) -> WorkerStats:
        """Works until stop(), or until the queue is empty with `until_empty`. Once per worker.

        Raises InvalidArgument when the server refuses the queue or the settings; anything else is tried again.
        """
        self._settler.start()
        self._keeper.start()
        for i in range(self._slots):
            threading.Thread(target=self._slot, name=f"millrace-slot-{i}", daemon=True).start()
        try:
            self._poll_loop()
        finally:
            self._shut_down()
            if self._owns_client:
                self._client.close()
        return self.stats

    def stop(self, grace: Seconds | None = None) -> None:
        """Begins a graceful stop; run() returns when it is done. `grace` replaces the one given at construction."""
        if grace is not None:
            self._grace = to_seconds(grace)
        # A signal handler may have interrupted the thread that holds a lock: another thread goes for it.
        threading.Thread(target=self._begin_stop, name="millrace-stop", daemon=True).start()

    def _begin_stop(self) -> None:
        self._stopping.set()
        with self._cond:
            if self._poll is not None:
                self._poll.cancel()
            self._cond.notify_all()

    # Polling: the thread in run().

    def _poll_loop(self) -> None:
        while True:
            free = self._wait_for_free_slot()
            if free == 0:
                return
            try:
                tasks = self._lease(free)
                done = not tasks and self._until_empty and self._queue_is_finished()
            except errors.InvalidArgument:
                raise
            except errors.MillraceError as error:
                if self._stopping.is_set():
                    return
                self.stats.poll_errors += 1
                _log.info("queue %s: %s; trying again", self._queue, error)
                self._stopping.wait(self._poll_backoff.next_wait(error.retry_after))
                continue
            self._poll_backoff.reset()
            if tasks:
                self._accept(tasks)
            elif done:
                return

    def _wait_for_free_slot(self) -> int:
        """How many tasks to ask for; 0 = stop."""

        def free() -> int:
            return self._slots - len(self._queued) - len(self._running)

        with self._cond:
            self._cond.wait_for(
                lambda: self._stopping.is_set() or (free() > 0 and self._settling < 4 * self._slots)
            )
            return 0 if self._stopping.is_set() else min(free(), 1000)

    def _lease(self, count: int) -> list[LeasedTask]:
        with self._cond:
            if self._stopping.is_set():
                return []
            self._poll = self._client.start_lease(
                self._queue,
                count,
                lease_duration=self._lease_duration,
                wait=_POLL_WAIT_UNTIL_EMPTY if self._until_empty else _POLL_WAIT,
                worker_id=self._worker_id,
            )
        try:
            return self._poll.result()
        finally:
            with self._cond:
                self._poll = None

    def _queue_is_finished(self) -> bool:
        with self._cond:
            if self._queued or self._running or self._settling:
                return False
        try:
            counts = self._client.describe(self._queue).counts
        except errors.QueueNotFound:
            return True
        return counts.waiting == 0 and counts.leased == 0

    def _accept(self, tasks: list[LeasedTask]) -> None:
        jobs = [Job(task) for task in tasks]
        self._keeper.hold(zip(jobs, tasks))
        with self._cond:
            self._queued.extend(jobs)
            self._cond.notify_all()

    # Working: the slot threads.

    def _slot(self) -> None:
        while True:
            with self._cond:
                self._cond.wait_for(lambda: self._queued or self._slots_closed)
                if not self._queued:
                    return
                job = self._queued.popleft()
                self._running[job.lease_token] = job
            settlement = self._handle(job)
            with self._cond:
                # Gone when the shutdown has released it meanwhile.
                if self._running.pop(job.lease_token, None) is not None:
                    self._settle(settlement)
                self._cond.notify_all()

    def _handle(self, job: Job) -> Settlement:
        try:
            job.payload = self._codec.decode(job.data)
            self._handler(job)
        except errors.PermanentError as error:
            return Settlement(job, Outcome.FAILED, _message(error), permanent=True)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is the task's failure
            if self._stopping.is_set() and job.cancelled:
                return Settlement(job, Outcome.RELEASED)
            self.stats.handler_errors += 1
            _log.warning("task %s failed in attempt %d: %s", job.task_id, job.attempt, _message(error))
            return Settlement(job, Outcome.FAILED, _message(error))
        return Settlement(job, Outcome.COMPLETED)

    # Settling.

    def _settle(self, settlement: Settlement) -> None:
        """With the lock held."""
        self._settling += 1
        self._settler.put(settlement)

    def _settled(self, settlement: Settlement, outcome: Outcome) -> None:
        self._keeper.drop(settlement.job)
        self.stats.outcomes[outcome] += 1
        if outcome in (Outcome.LEASE_LOST, Outcome.UNCERTAIN):
            _log.warning("task %s: %s", settlement.job.task_id, outcome.value)
        if self._on_settled is not None:
            try:
                self._on_settled(settlement.job, outcome)
            except Exception:  # noqa: BLE001 - an observer's fault must not end the settling thread
                _log.exception("on_settled raised")
        with self._cond:
            self._settling -= 1
            self._cond.notify_all()

    # Stopping: the thread in run(), after the last poll.

    def _shut_down(self) -> None:
        self._stopping.set()
        with self._cond:
            while self._queued:
                self._settle(Settlement(self._queued.popleft(), Outcome.RELEASED))
            self._slots_closed = True
            self._cond.notify_all()
            self._wait_for_handlers(lambda: self._grace)
            if self._running:
                for job in self._running.values():
                    job.cancel()
                self._wait_for_handlers(lambda: _CANCEL_GRACE)
            while self._running:
                _, job = self._running.popitem()
                self._settle(Settlement(job, Outcome.RELEASED))
        self._settler.close(_SETTLE_GRACE)
        self._keeper.close()

    def _wait_for_handlers(self, grace: Callable[[], float]) -> None:
        """With the lock held; the grace is asked for again when something changes, as stop() may shorten it."""
        begin = time.monotonic()
        while self._running:
            left = begin + grace() - time.monotonic()
            if left <= 0:
                return
            self._cond.wait(left)


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:1000]
