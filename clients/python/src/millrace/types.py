"""The plain values that calls take and return. Times are seconds (float), instants are seconds since the epoch."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from typing import Any, Mapping, Union

from google.protobuf import duration_pb2

# Seconds, or a timedelta.
Seconds = Union[float, int, datetime.timedelta]


class TaskState(enum.IntEnum):
    """Where a stored task is."""

    # A state this version does not know.
    UNKNOWN = 0
    WAITING = 1
    LEASED = 2
    # Attempts used up, or failed for good; kept until removed.
    DEAD = 3

    @classmethod
    def _missing_(cls, value: object) -> TaskState:
        return cls.UNKNOWN


@dataclass(frozen=True)
class NewTask:
    """A task to store. `payload` goes through the client's codec."""

    payload: Any
    # At most 64, 8 KiB in all.
    headers: Mapping[str, str] = field(default_factory=dict)
    # Total attempts, the first included; 0 = the server's setting.
    max_attempts: int = 0
    # Seconds after which a task that nobody leased is dropped; None = never.
    time_to_live: Seconds | None = None


@dataclass(frozen=True)
class LeasedTask:
    """A task in this caller's hands until `lease_duration` seconds after the reply was made."""

    queue: str
    task_id: str
    # Names this lease; goes to complete, fail, extend and release.
    lease_token: bytes
    # As stored.
    data: bytes
    headers: Mapping[str, str]
    # From 1.
    attempt: int
    max_attempts: int
    # Seconds since the epoch.
    enqueue_time: float
    # Seconds left when the reply was made.
    lease_duration: float


@dataclass(frozen=True)
class StoredTask:
    """A task as peek shows it."""

    task_id: str
    state: TaskState
    data: bytes
    headers: Mapping[str, str]
    # Attempts begun so far.
    attempt: int
    max_attempts: int
    enqueue_time: float
    # None = never.
    expiry_time: float | None
    # Leased tasks: seconds left, and who has it.
    lease_time_left: float
    worker_id: str
    # Dead tasks: what the last fail said.
    error_message: str


@dataclass(frozen=True)
class QueueCounts:
    """accepted = done + waiting + leased + dead + dropped, at every moment and after every crash."""

    accepted: int
    done: int
    waiting: int
    leased: int
    dead: int
    dropped: int

    @property
    def conserved(self) -> bool:
        return self.accepted == self.done + self.waiting + self.leased + self.dead + self.dropped

    def __str__(self) -> str:
        sign = "=" if self.conserved else "!="
        return (
            f"{self.accepted} accepted {sign} {self.done} done + {self.waiting} waiting + {self.leased} leased"
            f" + {self.dead} dead + {self.dropped} dropped"
        )


@dataclass(frozen=True)
class QueueInfo:
    """One queue, as describe and list show it."""

    name: str
    counts: QueueCounts
    # Seconds; None when no task waits.
    oldest_age: float | None
    # Lease calls waiting now.
    pollers: int
    # False: not in memory; counts are then as last stored, with leased counted as waiting.
    loaded: bool
    # Engine levels by name, for operators.
    backlog: Mapping[str, int]


def to_seconds(value: Seconds) -> float:
    """A number of seconds, from a number or a timedelta."""
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)


def to_duration(value: Seconds) -> duration_pb2.Duration:
    """The wire's duration; fractions are kept to the nanosecond."""
    if isinstance(value, int):
        return duration_pb2.Duration(seconds=value)
    nanos = round(to_seconds(value) * 1_000_000_000)
    sign = -1 if nanos < 0 else 1
    seconds, rest = divmod(abs(nanos), 1_000_000_000)
    return duration_pb2.Duration(seconds=sign * seconds, nanos=sign * rest)


def from_duration(value: Any) -> float:
    return value.seconds + value.nanos / 1e9
