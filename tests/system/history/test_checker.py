"""The checker finds each kind of violation in a history made by hand, and nothing in good ones."""

from __future__ import annotations

import pytest

from .checker import check
from .records import Call, Death, Final, Granted, History, Kind, Outcome, Seen, Sent, Settled

OK, NO, UNKNOWN = Outcome.OK, Outcome.NO, Outcome.UNKNOWN


class Story:
    """A history told call by call; each takes the times of its start and end."""

    def __init__(self):
        self.history = History()

    def _add(self, kind: Kind, begin: float, end: float, outcome: Outcome = OK, queue: str = "q", **items) -> Story:
        self.history.calls.append(Call(kind, queue, begin, end, outcome, client="c", **items))
        return self

    def put(self, begin, end, *ids, outcome=OK, max_attempts=0, time_to_live=None, queue="q"):
        """Payloads are named after the ids."""
        sent = [Sent(f"of {i}", outcome, i if outcome is OK else "", max_attempts, time_to_live) for i in ids]
        return self._add(Kind.ENQUEUE, begin, end, outcome, queue, sent=sent)

    def lease(self, begin, end, *tasks, left=10.0, queue="q", max_attempts=0, payload=None):
        """Each task is "id" or "id/attempt"; its token is "id/attempt", or what follows a colon."""
        granted = []
        for text in tasks:
            name, _, token = text.partition(":")
            task_id, _, attempt = name.partition("/")
            attempt = int(attempt or 1)
            granted.append(Granted(task_id, token or f"{task_id}/{attempt}", payload or f"of {task_id}", attempt,
                                   max_attempts, left))
        return self._add(Kind.LEASE, begin, end, OK, queue, granted=granted)

    def lost_lease_call(self, begin, end):
        return self._add(Kind.LEASE, begin, end, UNKNOWN)

    def settle(self, kind, begin, end, token, outcome=OK, **more):
        return self._add(kind, begin, end, UNKNOWN if outcome is UNKNOWN else OK,
                         settled=[Settled(token, outcome, **more)])

    def complete(self, begin, end, token, outcome=OK, **more):
        return self.settle(Kind.COMPLETE, begin, end, token, outcome, **more)

    def fail(self, begin, end, token, outcome=OK, **more):
        return self.settle(Kind.FAIL, begin, end, token, outcome, **more)

    def release(self, begin, end, token, outcome=OK):
        return self.settle(Kind.RELEASE, begin, end, token, outcome)

    def extend(self, begin, end, token, duration, outcome=OK, **more):
        return self.settle(Kind.EXTEND, begin, end, token, outcome, duration=duration, **more)

    def counts(self, begin, end, accepted, done, waiting, leased=0, dead=0, dropped=0):
        return self._add(Kind.DESCRIBE, begin, end, counts={
            "accepted": accepted, "done": done, "waiting": waiting, "leased": leased, "dead": dead, "dropped": dropped})

    def rows(self, begin, end, rows):
        self.counts(begin, end, rows["accepted"], rows["done"], rows["task_rows"])
        self.history.calls[-1].rows = {"dead": 0, "dropped": 0, "dead_rows": 0, "dead_total": 0, **rows}
        return self

    def peek(self, begin, end, *ids):
        return self._add(Kind.PEEK, begin, end, seen=[Seen(i, "waiting", 1) for i in ids])

    def death(self, begin, end, clean=False):
        self.history.deaths.append(Death(begin, end, clean))
        return self

    def final(self, accepted, done, dead=(), left=(), dropped=0, **rows):
        counts = {"accepted": accepted, "done": done, "waiting": len(left), "leased": 0, "dead": len(dead),
                  "dropped": dropped}
        all_rows = {"task_rows": len(left), "accepted": accepted, "done": done, "dead": len(dead), "dropped": dropped,
                    "dead_rows": len(dead), "dead_total": len(dead), **rows}
        self.history.final["q"] = Final(counts, all_rows, list(dead), list(left))
        return self

    def rules(self) -> set[str]:
        return {violation.rule for violation in check(self.history)}


def one_lease() -> Story:
    """Task a, enqueued by 1, leased from 2 to 3 until about 12."""
    return Story().put(0, 1, "a").lease(2, 3, "a")


GOOD = {
    "a whole life": one_lease().complete(4, 5, "a/1").counts(6, 7, 1, 1, 0).final(1, 1),
    "a retry after failure": one_lease().fail(4, 5, "a/1").lease(4.5, 6, "a/2").complete(7, 8, "a/2").final(1, 1),
    "a release charges nothing": one_lease().release(4, 5, "a/1").lease(6, 7, "a/1:x").complete(8, 9, "x").final(1, 1),
    "a release, then a lease whose call began before it": Story().put(0, 1, "a").lease(3, 4, "a/1:x").release(4, 5, "x")
        .lease(2, 6, "a/1:y").lease(17, 18, "a/2").complete(19, 20, "a/2").final(1, 1),
    "an expired lease": one_lease().lease(14, 15, "a/2").complete(16, 17, "a/1", NO, lost=True)
        .complete(18, 19, "a/2").final(1, 1),
    "one that may have expired": one_lease().lease(11.5, 14, "a/2").complete(14, 15, "a/2").final(1, 1),
    "an unanswered completion, done": one_lease().complete(4, 5, "a/1", UNKNOWN).final(1, 1),
    "an unanswered completion, not done": one_lease().complete(4, 5, "a/1", UNKNOWN).lease(13.5, 14, "a/2")
        .complete(15, 16, "a/2").final(1, 1),
    "an unanswered completion, told again": one_lease().complete(4, 5, "a/1", UNKNOWN)
        .complete(6, 7, "a/1", NO, lost=True).final(1, 1),
    "an unanswered enqueue, stored": Story().put(0, 1, "a", outcome=UNKNOWN).lease(2, 3, "a").complete(4, 5, "a/1")
        .final(1, 1),
    "an unanswered enqueue, not stored": Story().put(0, 1, "a", outcome=UNKNOWN).put(2, 3, "b").lease(4, 5, "b")
        .complete(6, 7, "b/1").final(1, 1),
    "a lease forgotten by a crash": one_lease().death(4, 5).lease(6, 7, "a/1:x").complete(8, 9, "a/1", NO, lost=True)
        .complete(10, 11, "x").final(1, 1),
    "a hidden lease charged an attempt": Story().put(0, 1, "a").lost_lease_call(2, 3).lease(14, 15, "a/2")
        .complete(16, 17, "a/2").final(1, 1),
    "an extended lease": one_lease().extend(4, 5, "a/1", 30).complete(25, 26, "a/1").final(1, 1),
    "dead, attempts used up": Story().put(0, 1, "a", max_attempts=1).lease(2, 3, "a", max_attempts=1)
        .fail(4, 5, "a/1").final(1, 0, dead=["a"]),
    "dead for good": one_lease().fail(4, 5, "a/1", permanent=True).final(1, 0, dead=["a"]),
    "dropped": Story().put(0, 1, "a", time_to_live=1.0).final(1, 0, dropped=1),
    "still there": one_lease().release(4, 5, "a/1").final(1, 0, left=["a"]),
    "order kept": Story().put(0, 1, "a").put(2, 3, "b").lease(4, 5, "a").lease(6, 7, "b"),
    "order of calls that overlap": Story().put(0, 2, "a").put(1, 3, "b").lease(4, 5, "b").lease(6, 7, "a"),
    "order blurred by a lost reply": Story().put(0, 1, "a").put(2, 3, "b").lost_lease_call(3, 4).lease(5, 6, "b")
        .death(7, 8).lease(9, 10, "a"),
}

BAD = {
    "task id given twice": Story().put(0, 1, "a").put(2, 3, "b").put(4, 5, "c"),
    "token given twice": Story().put(0, 1, "a", "b").lease(2, 3, "a:t", "b:t"),
    "unknown token accepted": Story().put(0, 1, "a").complete(2, 3, "made up"),
    "task from nowhere": Story().lease(2, 3, "a"),
    "refused task is there": Story().put(0, 1, "a", outcome=NO).lease(2, 3, "a"),
    "task stored twice": Story().put(0, 1, "a").lease(2, 3, "b", payload="of a"),
    "task in another queue": Story().put(0, 1, "a").lease(2, 3, "a", queue="other"),
    "payload changed": Story().put(0, 1, "a").lease(2, 3, "a", payload="else"),
    "lease ended twice": one_lease().complete(4, 5, "a/1").release(4, 5, "a/1"),
    "ended lease accepted": one_lease().release(4, 5, "a/1").extend(6, 7, "a/1", 5),
    "expired lease accepted": one_lease().complete(14, 15, "a/1"),
    "stale token accepted": one_lease().lease(13.5, 14, "a/2").release(15, 16, "a/1"),
    "good lease refused": one_lease().complete(4, 5, "a/1", NO, lost=True),
    "two leases at once": one_lease().lease(4, 5, "a/1:x"),
    "finished twice": one_lease().lease(13.5, 14, "a/2").complete(4, 20, "a/1").complete(15, 16, "a/2"),
    "finished task came back": one_lease().complete(4, 5, "a/1").lease(6, 7, "a/2"),
    "attempt out of range": Story().put(0, 1, "a", max_attempts=1).lease(2, 3, "a", max_attempts=1)
        .fail(4, 5, "a/1").lease(6, 7, "a/2", max_attempts=1),
    "max attempts changed": Story().put(0, 1, "a", max_attempts=2).lease(2, 3, "a", max_attempts=3),
    "attempts counted wrong": one_lease().fail(4, 5, "a/1").lease(6, 7, "a/1:x"),
    "order broken": Story().put(0, 1, "a").put(2, 3, "b").lease(4, 5, "b").lease(6, 7, "a"),
    "counts do not add up": Story().put(0, 1, "a").counts(2, 3, 1, 0, 0),
    "count below zero": Story().put(0, 1, "a").counts(2, 3, 1, 0, 2, -1),
    "count wrong": Story().put(0, 1, "a").counts(2, 3, 2, 0, 2),
    "finished task shown": one_lease().complete(4, 5, "a/1").peek(6, 7, "a"),
    "stored rows do not add up": one_lease().complete(4, 5, "a/1").final(1, 1, task_rows=1),
    "acknowledged task lost": one_lease().final(1, 0),
    "dead task lost": one_lease().fail(4, 5, "a/1", permanent=True).final(1, 0),
    "dead without cause": one_lease().final(1, 0, dead=["a"]),
}
# Two ids of one name in different calls.
BAD["task id given twice"].history.calls[1].sent[0].task_id = "a"

MORE_BAD = [
    ("finished task came back", one_lease().lease(13.5, 14, "a/2").complete(4, 20, "a/1")),
    ("finished task came back", one_lease().complete(4, 5, "a/1").final(1, 1, left=["a"])),
    ("finished task came back", one_lease().fail(4, 5, "a/1", permanent=True).lease(6, 7, "a/2")),
    ("attempts counted wrong", Story().put(0, 1, "a").lease(2, 3, "a/2")),
    ("attempts counted wrong", one_lease().release(4, 5, "a/1").lease(6, 7, "a/2")),
    ("order broken", Story().put(0, 1, "a", "b").lease(2, 3, "b", "a")),
    ("order broken", Story().put(0, 1, "a").put(2, 3, "b").lost_lease_call(1.5, 2).death(1.8, 1.9)
        .put(4, 5, "c", "d").lease(6, 7, "d").lease(8, 9, "c")),
    ("count wrong", one_lease().complete(4, 5, "a/1").counts(6, 7, 1, 0, 1)),
    ("count wrong", one_lease().complete(4, 5, "a/1").final(2, 2)),
    ("count wrong", one_lease().complete(4, 5, "a/1", UNKNOWN).final(1, 2)),
    ("stored rows do not add up", one_lease().complete(4, 5, "a/1").final(1, 1, dead_rows=1)),
    ("stored rows do not add up", Story().put(0, 1, "a", "b").rows(2, 3, {"accepted": 2, "done": 0, "task_rows": 2})
        .rows(4, 5, {"accepted": 2, "done": 0, "task_rows": 1})),
    # A confirmed write after the lease carried it: a crash may not forget it.
    ("two leases at once", one_lease().put(4, 5, "b").death(6, 6.5).lease(7, 8, "a/1:x")),
    ("good lease refused", one_lease().put(4, 5, "b").death(6, 6.5).complete(7, 8, "a/1", NO, lost=True)),
    # Neither may a clean stop.
    ("two leases at once", one_lease().death(4, 5, clean=True).lease(6, 7, "a/1:x")),
    # An extension counts.
    ("two leases at once", one_lease().extend(4, 5, "a/1", 30).lease(20, 21, "a/2")),
]


@pytest.mark.parametrize("name", GOOD)
def test_good(name):
    assert GOOD[name].rules() == set()


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_can_be_broken(rule):
    assert rule in BAD[rule].rules()


@pytest.mark.parametrize("number", range(len(MORE_BAD)))
def test_broken_in_another_way(number):
    rule, story = MORE_BAD[number]
    assert rule in story.rules()


def test_a_history_is_kept_whole(tmp_path):
    story = one_lease().extend(4, 5, "a/1", 30).complete(6, 7, "a/1").peek(8, 9, "b").counts(8, 9, 1, 1, 0).death(9, 10) \
        .final(1, 1)
    story.history.save(tmp_path / "kept")
    assert History.load(tmp_path / "kept") == story.history
