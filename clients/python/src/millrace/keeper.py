"""Keeps a worker's leases alive."""

from __future__ import annotations

import logging
import threading
import time
from typing import Iterable

from . import errors
from .backoff import Backoff
from .client import Client
from .job import Job
from .lease_table import LeaseTable
from .types import LeasedTask

_log = logging.getLogger("millrace.worker")
_BATCH = 1000


class LeaseKeeper:
    """One thread that extends the leases of the tasks in a worker's hands, and cancels the jobs whose lease is lost.

    Threads: hold() and drop() from any. Bounds: holds what the worker holds.
    Fails: while the server does not answer, extensions are tried again with growing waits; a lease that ends meanwhile
    cancels its job too, as the task may be handed to another worker.
    """

    def __init__(self, client: Client, queue: str, lease_duration: float, backoff: Backoff):
        self._client = client
        self._queue = queue
        self._duration = lease_duration
        self._backoff = backoff
        self._table: LeaseTable[Job] = LeaseTable(lease_duration)
        self._cond = threading.Condition()
        self._changed = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="millrace-extend", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hold(self, jobs: Iterable[tuple[Job, LeasedTask]]) -> None:
        """Starts to keep these leases; called right after they came."""
        now = time.monotonic()
        for job, task in jobs:
            self._table.add(job.lease_token, job, now, task.lease_duration)
        with self._cond:
            self._changed = True
            self._cond.notify_all()

    def drop(self, job: Job) -> None:
        """The job is settled."""
        self._table.remove(job.lease_token)

    def close(self) -> None:
        with self._cond:
            self._closing = True
            self._cond.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while self._wait_for_event():
            for job in self._table.newly_expired(time.monotonic()):
                _log.warning("task %s: its lease ran out while the server could not be reached", job.task_id)
                job.cancel()
            due = self._table.due(time.monotonic())
            for start in range(0, len(due), _BATCH):
                self._extend(due[start:start + _BATCH])

    def _wait_for_event(self) -> bool:
        """Waits until something is due; false when closing."""
        with self._cond:
            while not self._closing:
                self._changed = False
                event = self._table.next_event()
                wait = None if event is None else event - time.monotonic()
                if wait is not None and wait <= 0:
                    return True
                self._cond.wait_for(lambda: self._changed or self._closing, wait)
            return False

    def _extend(self, due: list[tuple[bytes, Job]]) -> None:
        tokens = [token for token, _ in due]
        asked_at = time.monotonic()
        try:
            # An answer that comes later than a third of the lease is no use: try again instead.
            timeout = max(1.0, self._duration / 3)
            results = self._client.extend_many(self._queue, tokens, self._duration, timeout=timeout)
        except errors.MillraceError as error:
            self._table.after_failure(tokens, time.monotonic() + self._backoff.next_wait(error.retry_after))
            return
        self._backoff.reset()
        self._table.extended([t for t, error in zip(tokens, results) if error is None], asked_at)
        for (token, job), error in zip(due, results):
            if isinstance(error, errors.LeaseLost):
                self._table.remove(token)
                job.cancel()
            elif error is not None:
                self._table.after_failure([token], time.monotonic() + self._backoff.next_wait())
