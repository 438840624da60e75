"""Tells the server how tasks ended, in batches, through restarts of the server."""

from __future__ import annotations

import collections
import logging
import threading
import time
from dataclasses import dataclass
from typing import Callable

from . import errors
from .backoff import Backoff
from .client import Client, FailItem, ItemErrors
from .job import Job, Outcome

_BATCH = 500
_log = logging.getLogger("millrace.worker")


@dataclass
class Settlement:
    """What is to be told about one task. `kind` is the outcome it has when the server agrees."""

    job: Job
    kind: Outcome
    error_message: str = ""
    permanent: bool = False
    # An earlier try may have been applied although its reply never came.
    unknown: bool = False


def outcome_of(item: Settlement, error: errors.MillraceError | None) -> Outcome | None:
    """What an answer means for a settlement; None = try again.

    Decided per item: no error is success; LEASE_LOST is definite unless an earlier try went unanswered; errors that
    another try may heal ask for one; anything else is the server's final no.
    """
    if error is None:
        return item.kind
    if isinstance(error, errors.LeaseLost):
        return Outcome.UNCERTAIN if item.unknown else Outcome.LEASE_LOST
    if is_transient(error):
        return None
    return Outcome.ABANDONED


def is_transient(error: errors.MillraceError) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, (errors.Unavailable, errors.ResourceExhausted, errors.DeadlineExceeded,
                              errors.Cancelled, errors.ServerFault))


class Settler:
    """One thread that completes, fails and releases tasks of one queue.

    Settlements that arrive while a call is under way go out together in the next one. A call that failed is repeated
    with growing waits until the server answers or close() runs out of time.
    Threads: put() from any; `on_settled` is called on the settler's thread, once per settlement.
    Bounds: holds what the worker holds; at most 500 tasks a call.
    """

    def __init__(
        self, client: Client, queue: str, on_settled: Callable[[Settlement, Outcome], None], backoff: Backoff
    ):
        self._client = client
        self._queue = queue
        self._on_settled = on_settled
        self._backoff = backoff
        self._cond = threading.Condition()
        self._waiting: collections.deque[Settlement] = collections.deque()
        self._closing = False
        # time.monotonic() after which nothing is tried any more; None = no limit.
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="millrace-settle", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, item: Settlement) -> None:
        with self._cond:
            self._waiting.append(item)
            self._cond.notify_all()

    def close(self, timeout: float) -> None:
        """Settles what is there and ends the thread; gives up after `timeout` seconds: the rest is ABANDONED."""
        with self._cond:
            self._closing = True
            self._give_up_at = time.monotonic() + timeout
            self._cond.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._cond:
                self._cond.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            again: list[Settlement] = []
            wait = 0.0
            for kind in (Outcome.COMPLETED, Outcome.FAILED, Outcome.RELEASED):
                group = [item for item in batch if item.kind is kind]
                if group:
                    failed, group_wait = self._settle(kind, group)
                    again += failed
                    wait = max(wait, group_wait)
            if not again:
                self._backoff.reset()
            elif not self._pause(wait):
                self._abandon(again)
            else:
                with self._cond:
                    self._waiting.extendleft(reversed(again))

    def _settle(self, kind: Outcome, group: list[Settlement]) -> tuple[list[Settlement], float]:
        """One call; returns what has to be tried again and how long to wait before."""
        try:
            results = self._send(kind, group)
        except errors.MillraceError as error:
            results = [error] * len(group)
        again: list[Settlement] = []
        retry_after: float | None = None
        for item, error in zip(group, results):
            outcome = outcome_of(item, error)
            if outcome is None:
                item.unknown = item.unknown or not error.surely_not_done
                retry_after = error.retry_after if retry_after is None else retry_after
                again.append(item)
                continue
            if outcome is Outcome.ABANDONED:
                _log.error("task %s could not be settled: %s", item.job.task_id, error)
            self._on_settled(item, outcome)
        return again, self._backoff.next_wait(retry_after) if again else 0.0

    def _send(self, kind: Outcome, group: list[Settlement]) -> ItemErrors:
        tokens = [item.job.lease_token for item in group]
        if kind is Outcome.COMPLETED:
            return self._client.complete_many(self._queue, tokens)
        if kind is Outcome.RELEASED:
            return self._client.release_many(self._queue, tokens)
        items = [FailItem(i.job.lease_token, i.error_message, i.permanent) for i in group]
        return self._client.fail_many(self._queue, items)

    def _pause(self, seconds: float) -> bool:
        """Waits before another try; false when there is no time for one."""
        end = time.monotonic() + seconds
        with self._cond:
            while True:
                now = time.monotonic()
                if self._give_up_at is not None and now >= self._give_up_at:
                    return False
                if now >= end:
                    return True
                limit = end if self._give_up_at is None else min(end, self._give_up_at)
                self._cond.wait(limit - now)

    def _abandon(self, items: list[Settlement]) -> None:
        for item in items:
            self._on_settled(item, Outcome.UNCERTAIN if item.unknown else Outcome.ABANDONED)
