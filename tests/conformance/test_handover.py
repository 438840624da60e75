"""A classic queue that changes hands again and again, in good order and by theft: nothing is lost, nothing comes back."""

from __future__ import annotations

import concurrent.futures
import random
import threading

import pytest

import rows
from rows import ACTIVITY, Queue, Task

SUBQUEUES = 2


class Book:
    """What must be in the queue."""

    def __init__(self):
        self.live: list[Task] = []
        self.acked = [0] * SUBQUEUES

    def of(self, subqueue: int) -> list[Task]:
        return [task for task in self.live if task.subqueue == subqueue]

    def complete_below(self, subqueue: int, count: int) -> list[Task]:
        done = self.of(subqueue)[:count]
        self.live = [task for task in self.live if task not in done]
        if done:
            self.acked[subqueue] = done[-1].id
        return done


class TemporalOwner:
    """Does what Temporal's matching service does with the rows."""

    def __init__(self, temporal, queue: Queue, book: Book):
        self._temporal, self._queue, self._book = temporal, queue, book
        taken = temporal.take(queue)
        self.range_id, self._info = taken["range_id"], taken["info"]
        self._next, _ = rows.block(self.range_id)
        found = temporal.read(queue, SUBQUEUES)["tasks"]
        # Rows below the ack level may be left; they are never read.
        acks = [int(subqueue.get("ackLevel", "0")) for subqueue in self._info["subqueues"]] + [0] * SUBQUEUES
        assert [task for task in found if task.id > acks[task.subqueue]] == sorted(book.live)

    def work(self, dice: random.Random) -> None:
        tasks = []
        for _ in range(dice.randrange(6)):
            tasks.append({"subqueue": dice.randrange(len(self._info["subqueues"])), "pass": 0, "id": self._next,
                          "info": {"workflowId": f"temporal-{self._next}"}})
            self._next += 1
        if tasks:
            self._book.live += self._temporal.append(self._queue, self.range_id, tasks)
        subqueue = dice.randrange(len(self._info["subqueues"]))
        for task in self._book.complete_below(subqueue, dice.randrange(4)):
            # As Temporal: first the level, the row some time later or never.
            if dice.randrange(2):
                self._temporal.complete(self._queue, below_id=task.id + 1, subqueue=subqueue)
        self._save()

    def _save(self) -> None:
        for subqueue, info in enumerate(self._info["subqueues"]):
            info["approximateBacklogCount"] = str(len(self._book.of(subqueue)))
            if self._book.acked[subqueue]:
                info["ackLevel"] = str(max(self._book.acked[subqueue], int(info.get("ackLevel", "0"))))
        self._temporal.save(self._queue, self.range_id, self._info)

    def stop(self) -> None:
        self._save()

    def is_refused(self) -> None:
        with pytest.raises(rows.ConditionFailed):
            self._temporal.append(self._queue, self.range_id, [{"subqueue": 0, "pass": 0, "id": self._next, "info": {}}])
        with pytest.raises(rows.ConditionFailed):
            self._temporal.save(self._queue, self.range_id, self._info)


class MillraceOwner:
    def __init__(self, tool, queue: Queue, name: str, book: Book):
        self._book = book
        self._owned = tool.own(queue, name).start()
        self.range_id = self._owned.range_id
        self._held: set[str] = set()
        self._serial = 0

    def work(self, dice: random.Random) -> None:
        for _ in range(dice.randrange(6)):
            self._serial += 1
            text = f"millrace-{self.range_id}-{self._serial}".encode()
            info = (b"\x12" + bytes([len(text)]) + text).hex()
            self._book.live.append(self._owned.spool(info, dice.randrange(SUBQUEUES)))
        self._held |= {task.key for task in self._owned.take(100_000)}
        assert self._held == {task.key for task in self._book.live}
        for task in self._book.complete_below(dice.randrange(SUBQUEUES), dice.randrange(4)):
            self._owned.complete(task)
            self._held.discard(task.key)
        assert self._owned.status() == (self.range_id, len(self._book.live), "none")

    def stop(self) -> None:
        self._owned.stop()

    def is_refused(self) -> None:
        with pytest.raises(rows.Refused, match="^FENCED"):
            self._owned.spool("0a0161")
        self._owned.stop()


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_that_changes_hands_loses_nothing(seed, temporal, classic):
    dice = random.Random(seed)
    queue = Queue("classic", ACTIVITY, f"handover{seed}", partition=dice.randrange(3))
    name = temporal.create(queue, {"subqueues": [{"key": {"priority": 3}}]})["name"]
    book = Book()
    previous, last_range = None, 1
    for _ in range(40):
        stolen = previous is not None and isinstance(previous, TemporalOwner) and dice.randrange(2) == 1
        if previous is not None and not stolen:
            previous.stop()
        if dice.randrange(2):
            owner = TemporalOwner(temporal, queue, book)
        else:
            owner = MillraceOwner(classic, queue, name, book)
        assert owner.range_id > last_range
        last_range = owner.range_id
        if stolen:
            previous.is_refused()
        for _ in range(dice.randrange(1, 4)):
            owner.work(dice)
        previous = owner
    previous.stop()
    last = MillraceOwner(classic, queue, name, book)
    last.work(dice)
    last.stop()
    assert temporal.read(queue, SUBQUEUES)["tasks"] == sorted(book.live)


def test_a_theft_from_us_takes_back_only_what_was_finished_in_memory(temporal, classic):
    queue = Queue("classic", ACTIVITY, "theft")
    name = temporal.create(queue, {"subqueues": [{"key": {"priority": 3}}]})["name"]
    book = Book()
    ours = MillraceOwner(classic, queue, name, book)
    for dice in range(5):
        ours.work(random.Random(dice))
    # Levels of memory are not in the rows yet: what was finished since may be there once more, and nothing is missing.
    taken = temporal.take(queue)
    acks = [int(subqueue.get("ackLevel", "0")) for subqueue in taken["info"]["subqueues"]]
    unfinished = [t for t in temporal.read(queue, SUBQUEUES)["tasks"] if t.id > acks[t.subqueue]]
    assert set(book.live) <= set(unfinished)
    ours.is_refused()
    assert [t for t in temporal.read(queue, SUBQUEUES)["tasks"] if t.id > acks[t.subqueue]] == unfinished


def test_what_we_acknowledged_before_a_kill_is_temporals(temporal, our_program, server, database):
    queue = Queue("classic", ACTIVITY, "killed")
    name = temporal.create(queue, {"subqueues": [{"key": {"priority": 3}}]})["name"]
    tool = rows.Millrace(our_program, server.url(database), "classic")
    owned = tool.own(queue, name).start()
    stored = [owned.spool("12016d", i % SUBQUEUES) for i in range(30)]
    owned.complete(owned.take(1)[0])
    tool.kill()
    taken = temporal.take(queue)
    assert taken["range_id"] == 3
    assert temporal.read(queue, SUBQUEUES)["tasks"] == sorted(stored)
    assert [int(s["approximateBacklogCount"]) for s in taken["info"]["subqueues"]] == [15, 15]


def test_two_engines_that_fight_for_a_queue_never_both_own_it(temporal_program, our_program, server, database):
    """At the same time, each taking the queue as soon as it lost it: what was acknowledged is there, once."""
    queue = Queue("classic", ACTIVITY, "duel")
    rounds, losses = 60, {"temporal": 0, "millrace": 0}
    # Both begin as owners, so that one of them has lost the queue already.
    both_own = threading.Barrier(2, timeout=rows.PATIENCE)
    stored: dict[str, list[Task]] = {"temporal": [], "millrace": []}
    ranges: dict[str, list[int]] = {"temporal": [], "millrace": []}

    def temporal_side() -> None:
        with rows.Temporal(temporal_program, server, database) as temporal:
            left = rounds
            while left > 0:
                try:
                    taken = temporal.take(queue)
                    ranges["temporal"].append(taken["range_id"])
                    if len(ranges["temporal"]) == 1:
                        both_own.wait()
                    number, _ = rows.block(taken["range_id"])
                    while left > 0:
                        left -= 1
                        tasks = [{"subqueue": 0, "pass": 0, "id": number + i, "info": {"workflowId": "t"}} for i in range(3)]
                        number += 3
                        stored["temporal"] += temporal.append(queue, taken["range_id"], tasks)
                except rows.ConditionFailed:
                    losses["temporal"] += 1

    def millrace_side() -> None:
        with rows.Millrace(our_program, server.url(database), "classic") as tool:
            left = rounds
            while left > 0:
                owned = None
                try:
                    owned = tool.own(queue, name)
                    owned.start()
                    ranges["millrace"].append(owned.range_id)
                    if len(ranges["millrace"]) == 1:
                        both_own.wait()
                    while left > 0:
                        left -= 1
                        stored["millrace"].append(owned.spool("12016d"))
                except rows.Refused as refused:
                    assert str(refused).startswith("FENCED"), refused
                    losses["millrace"] += 1
                owned.stop()

    with rows.Temporal(temporal_program, server, database) as temporal:
        name = temporal.create(queue, {"subqueues": [{"key": {"priority": 3}}]})["name"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for side in [pool.submit(temporal_side), pool.submit(millrace_side)]:
                side.result()
        found = temporal.read(queue, 1)
    assert found["tasks"] == sorted(stored["temporal"] + stored["millrace"])
    assert {task.data for task in stored["temporal"]} == {"120174"}
    both = ranges["temporal"] + ranges["millrace"]
    assert len(set(both)) == len(both) and found["range_id"] == max(both)
    for side, tasks in stored.items():
        assert {(task.id - 1) // rows.RANGE_SIZE + 1 for task in tasks} <= set(ranges[side])
    assert losses["temporal"] + losses["millrace"] > 0
