"""When the leases of a worker have to be extended: decisions only, no clock and no calls."""

from __future__ import annotations

import threading
from typing import Any, Generic, Iterable, TypeVar

Held = TypeVar("Held")


class LeaseTable(Generic[Held]):
    """The leases a worker holds, each with the moment it ends and the moment it should be extended.

    A lease is extended when a third of it is over, so that two more tries fit in before it ends. Moments are seconds
    on the caller's monotonic clock.
    Threads: any; every method is atomic. Bounds: as many entries as the worker holds tasks.
    Invariants: an entry's extension is due before its lease ends, as long as `after_failure` is told of failed tries.
    """

    def __init__(self, lease_duration: float):
        self._duration = lease_duration
        self._lock = threading.Lock()
        # key -> [held, ends, due, reported as expired]
        self._rows: dict[Any, list[Any]] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._rows)

    def add(self, key: Any, held: Held, now: float, time_left: float) -> None:
        with self._lock:
            self._rows[key] = [held, now + time_left, now + time_left / 3, False]

    def remove(self, key: Any) -> None:
        with self._lock:
            self._rows.pop(key, None)

    def due(self, now: float) -> list[tuple[Any, Held]]:
        """The leases to extend now."""
        with self._lock:
            return [(key, row[0]) for key, row in self._rows.items() if row[2] <= now]

    def extended(self, keys: Iterable[Any], asked_at: float) -> None:
        """The server extended these; counting from when it was asked errs on the safe side."""
        with self._lock:
            for key in keys:
                row = self._rows.get(key)
                if row is not None:
                    row[1] = asked_at + self._duration
                    row[2] = asked_at + self._duration / 3
                    row[3] = False

    def after_failure(self, keys: Iterable[Any], retry_at: float) -> None:
        """The try did not get through; the next one is at `retry_at`."""
        with self._lock:
            for key in keys:
                row = self._rows.get(key)
                if row is not None:
                    row[2] = retry_at

    def newly_expired(self, now: float) -> list[Held]:
        """Leases that nobody could extend in time, each reported once."""
        with self._lock:
            expired = [row for row in self._rows.values() if row[1] <= now and not row[3]]
            for row in expired:
                row[3] = True
            return [row[0] for row in expired]

    def next_event(self) -> float | None:
        """The earliest moment at which due() or newly_expired() has something, or None when nothing is held."""
        with self._lock:
            moments = [row[2] if row[3] else min(row[1], row[2]) for row in self._rows.values()]
            return min(moments, default=None)
