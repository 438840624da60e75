"""The task as a handler sees it, and what can become of it."""

from __future__ import annotations

import enum
import threading
from typing import Any, Mapping

from .types import LeasedTask


class Outcome(enum.Enum):
    """How a worker's hold on a task ended."""

    # The server confirmed that this worker finished the task.
    COMPLETED = "completed"
    # Given back as failed; the server tries again or sets it aside.
    FAILED = "failed"
    # Given back unworked, no attempt charged.
    RELEASED = "released"
    # The lease had ended before this worker could settle it; the task is somebody else's now.
    LEASE_LOST = "lease_lost"
    # A try to settle went unanswered, and no later one could tell: it found the lease ended, or the worker had to stop
    # first. Either that try did it, or the lease ran out. The server's counts know.
    UNCERTAIN = "uncertain"
    # Not settled before the worker had to stop; the task comes back when its lease ends.
    ABANDONED = "abandoned"


class LeaseCancelled(Exception):
    """Raised by Job.raise_if_cancelled: this worker should stop working on the task."""


class Job:
    """One leased task in a handler's hands.

    Threads: any; the handler may pass it to its own threads. The cancel signal is set when the lease is lost, when it
    ran out while the server could not be reached, or when the worker's grace period for stopping is over. After it,
    whatever the handler still does may be done by another worker too.
    """

    def __init__(self, task: LeasedTask):
        self._task = task
        self._cancel = threading.Event()
        # Decoded by the codec before the handler is called.
        self.payload: Any = None

    @property
    def queue(self) -> str:
        return self._task.queue

    @property
    def task_id(self) -> str:
        """The same through every attempt."""
        return self._task.task_id

    @property
    def data(self) -> bytes:
        """The payload as stored."""
        return self._task.data

    @property
    def headers(self) -> Mapping[str, str]:
        return self._task.headers

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._task.attempt

    @property
    def max_attempts(self) -> int:
        return self._task.max_attempts

    @property
    def enqueue_time(self) -> float:
        """Seconds since the epoch."""
        return self._task.enqueue_time

    @property
    def lease_token(self) -> bytes:
        return self._task.lease_token

    @property
    def cancelled(self) -> bool:
        return self._cancel.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits for the cancel signal for at most `timeout` seconds; returns whether it is set."""
        return self._cancel.wait(timeout)

    def raise_if_cancelled(self) -> None:
        """Raises LeaseCancelled when the cancel signal is set; a handler's long loops call it."""
        if self._cancel.is_set():
            raise LeaseCancelled(f"task {self.task_id}: the lease is lost or the worker stops")

    def cancel(self) -> None:
        """Sets the cancel signal. For the worker."""
        self._cancel.set()
