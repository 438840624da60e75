"""What a history is made of. Times are seconds of one monotonic clock, the one of the machine."""

from __future__ import annotations

import dataclasses
import enum
import json
import pathlib
from dataclasses import dataclass, field
from typing import Any


class Outcome(str, enum.Enum):
    OK = "ok"
    # Surely not done: the server said so, or it never got the call.
    NO = "no"
    # Done or not, now or later.
    UNKNOWN = "unknown"


class Kind(str, enum.Enum):
    ENQUEUE = "enqueue"
    LEASE = "lease"
    COMPLETE = "complete"
    FAIL = "fail"
    EXTEND = "extend"
    RELEASE = "release"
    PEEK = "peek"
    DESCRIBE = "describe"


# What ends a lease when it succeeds.
ENDING = (Kind.COMPLETE, Kind.FAIL, Kind.RELEASE)


@dataclass
class Sent:
    """One task of an enqueue call. Payloads are unique in a history: nothing is ever sent twice."""

    payload: str
    outcome: Outcome
    task_id: str = ""
    max_attempts: int = 0
    time_to_live: float | None = None


@dataclass
class Granted:
    """One task of a lease reply."""

    task_id: str
    token: str
    payload: str
    attempt: int
    max_attempts: int
    # Seconds left when the reply was made.
    time_left: float


@dataclass
class Settled:
    """One item of complete, fail, extend or release."""

    token: str
    outcome: Outcome
    # Refused because the lease is lost, not for a reason of the moment.
    lost: bool = False
    permanent: bool = False
    duration: float = 0.0


@dataclass
class Seen:
    """One task of a peek."""

    task_id: str
    state: str
    attempt: int


@dataclass
class Call:
    """One call. `outcome` is of the call as a whole; items may differ. A call that was never answered has the outcome
    UNKNOWN, and its effect may come after `returned`, which is when the client gave it up."""

    kind: Kind
    queue: str
    invoked: float
    returned: float
    outcome: Outcome
    sent: list[Sent] = field(default_factory=list)
    granted: list[Granted] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    # Describe: accepted, done, waiting, leased, dead, dropped.
    counts: dict[str, int] = field(default_factory=dict)
    # Describe with a count of the stored rows: as Final.rows.
    rows: dict[str, int] = field(default_factory=dict)
    client: str = ""


@dataclass
class Death:
    """The server process ended, by SIGKILL (clean = False) or by its own clean stop."""

    begin: float
    end: float
    clean: bool = False


@dataclass
class Final:
    """One queue at the end, when nobody works on it any more."""

    counts: dict[str, int]
    # As found row by row: task_rows, accepted, done, dead, dropped, dead_rows, dead_total.
    rows: dict[str, int]
    dead: list[str]
    # Waiting or leased.
    left: list[str]


@dataclass
class History:
    calls: list[Call] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    final: dict[str, Final] = field(default_factory=dict)

    def save(self, path: pathlib.Path) -> None:
        """One JSON object a line."""
        with path.open("w") as out:
            for name, items in (("call", self.calls), ("death", self.deaths)):
                for item in items:
                    out.write(json.dumps({name: dataclasses.asdict(item)}) + "\n")
            for queue, final in self.final.items():
                out.write(json.dumps({"final": dataclasses.asdict(final), "queue": queue}) + "\n")

    @classmethod
    def load(cls, path: pathlib.Path) -> History:
        history = cls()
        with path.open() as lines:
            for line in lines:
                row = json.loads(line)
                if "call" in row:
                    history.calls.append(_call(row["call"]))
                elif "death" in row:
                    history.deaths.append(Death(**row["death"]))
                else:
                    history.final[row["queue"]] = Final(**row["final"])
        return history


def _call(row: dict[str, Any]) -> Call:
    row["kind"], row["outcome"] = Kind(row["kind"]), Outcome(row["outcome"])
    for name, maker in (("sent", Sent), ("granted", Granted), ("settled", Settled), ("seen", Seen)):
        for item in row[name]:
            if "outcome" in item:
                item["outcome"] = Outcome(item["outcome"])
        row[name] = [maker(**item) for item in row[name]]
    return Call(**row)
