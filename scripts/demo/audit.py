"""Decides from the books of a demonstration run whether anything was lost or finished twice. No I/O here."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Iterable, Mapping


@dataclass(frozen=True)
class Ending:
    """A worker's note of how its hold on a task ended."""

    task_id: str
    # "completed": the server confirmed it. "uncertain": the reply was lost and the repeated call could not tell.
    # "lease_lost", "failed", "released", "abandoned": this worker did not finish it.
    outcome: str


@dataclass
class Books:
    """What each side wrote down, independently of the others."""

    # The producer's input: the identity of each record, in order.
    records: list[str]
    # The task ids that the server acknowledged to the producer, in the order of the input: one for each record.
    acknowledged: list[str]
    # What the server held after the producer had ended: task id -> identity of the payload.
    stored: Mapping[str, str]
    # By worker name.
    endings: Mapping[str, Iterable[Ending]]
    # The server's counts at the end.
    accepted: int
    done: int
    waiting: int
    leased: int
    dead: int
    dropped: int


@dataclass
class Verdict:
    """The numbers of the audit; `problems` is empty when all is well."""

    records: int = 0
    stored: int = 0
    stored_twice: int = 0
    confirmed: dict[str, int] = field(default_factory=dict)
    # Tasks for which no worker has a confirmation although the server counts them as done.
    resolved: int = 0
    lease_lost: int = 0
    lost: int = 0
    finished_twice: int = 0
    records_done: int = 0
    problems: list[str] = field(default_factory=list)


def check(books: Books) -> Verdict:
    """Compares the books.

    A task is done when a worker holds the server's confirmation for it. Where the reply to a Complete was lost in a
    kill, the worker repeats the call; LEASE_LOST is then the answer both when the first call had done it and when the
    lease had ended. Such tasks are counted apart and settled by the server's count: the queue is empty, so if the
    server's `done` equals the number of tasks, each of them is done, once.
    """
    verdict = Verdict(records=len(books.records), stored=len(books.stored))
    say = verdict.problems.append

    # The producer against the store.
    wanted = collections.Counter(books.records)
    copies = collections.Counter(books.stored.values())
    missing = sum((wanted - copies).values())
    verdict.stored_twice = sum(max(0, copies[record] - wanted[record]) for record in wanted)
    strange = sum(count for record, count in copies.items() if record not in wanted)
    if missing:
        say(f"{missing} records were never stored")
    if strange:
        say(f"{strange} tasks were stored that are no record of the input")
    if len(books.acknowledged) != len(books.records):
        say(f"{len(books.acknowledged)} task ids were acknowledged for {len(books.records)} records")
    wrong = sum(1 for task_id, record in zip(books.acknowledged, books.records) if books.stored.get(task_id) != record)
    if wrong:
        say(f"{wrong} acknowledged tasks are not in the store as they were sent")
    if books.accepted != len(books.stored):
        say(f"the server accepted {books.accepted} tasks, and {len(books.stored)} were found in it")

    # The workers against the store.
    confirmed: collections.Counter[str] = collections.Counter()
    uncertain: set[str] = set()
    for worker, endings in books.endings.items():
        verdict.confirmed[worker] = 0
        for ending in endings:
            if ending.task_id not in books.stored:
                say(f"{worker} worked on {ending.task_id}, which was not stored")
            if ending.outcome == "completed":
                confirmed[ending.task_id] += 1
                verdict.confirmed[worker] += 1
            elif ending.outcome == "uncertain":
                uncertain.add(ending.task_id)
            elif ending.outcome == "lease_lost":
                verdict.lease_lost += 1
    verdict.finished_twice = sum(1 for count in confirmed.values() if count > 1)
    if verdict.finished_twice:
        say(f"{verdict.finished_twice} tasks were finished twice")
    open_ids = {task_id for task_id in books.stored if not confirmed[task_id]}
    unexplained = open_ids - uncertain
    verdict.resolved = len(open_ids & uncertain)
    verdict.lost = missing + len(unexplained)
    if unexplained:
        say(f"{len(unexplained)} tasks were stored and finished by nobody")

    # The server against both.
    if books.accepted != books.done + books.waiting + books.leased + books.dead + books.dropped:
        say("the server's counts do not add up")
    if books.waiting or books.leased:
        say(f"{books.waiting} tasks still wait and {books.leased} are leased")
    if books.dead or books.dropped:
        say(f"{books.dead} tasks are dead and {books.dropped} were dropped")
    if books.done != len(set(confirmed) | (open_ids & uncertain)):
        say(f"the server counts {books.done} done, the workers {len(set(confirmed) | (open_ids & uncertain))}")

    done_records = collections.Counter(
        record for task_id, record in books.stored.items() if task_id not in unexplained)
    verdict.records_done = sum((wanted & done_records).values())
    return verdict
