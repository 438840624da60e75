"""The rules that every history must obey. Pure: no server, no clock.

What a client cannot know is given the server's benefit: a lease is counted as certainly held only between the moment its
reply had arrived and the earliest moment at which it can have ended; an unanswered call may have happened at any time
from its start on. So a violation is one, whatever the timing was.
"""

from __future__ import annotations

import bisect
import collections
from dataclasses import dataclass, field

from .records import ENDING, Call, Final, Granted, History, Kind, Outcome, Sent, Settled

# What clocks may differ by: the server counts a lease down in monotonic time, and in calendar time over a restart.
SLACK = 0.02
# How long after its client gave up a call may still take and drop tasks.
LATE_EFFECT = 5.0
_FOREVER = float("inf")


@dataclass(frozen=True)
class Violation:
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(eq=False)
class _Op:
    call: Call
    item: Settled

    @property
    def may_have_happened(self) -> bool:
        return self.item.outcome is not Outcome.NO

    @property
    def ok(self) -> bool:
        return self.item.outcome is Outcome.OK

    def __str__(self) -> str:
        return f"{self.call.kind.value} [{self.call.invoked:.3f}, {self.call.returned:.3f}] by {self.call.client}"


@dataclass(eq=False)
class _Lease:
    call: Call
    grant: Granted
    position: int
    ops: list[_Op] = field(default_factory=list)
    # No later than this could it end by itself; not before this did it.
    sure_until: float = 0.0
    gone_by: float = _FOREVER

    def before(self, other: _Lease) -> bool:
        """Certainly granted before `other` was."""
        return self.call.returned <= other.call.invoked

    @property
    def endings(self) -> list[_Op]:
        return [op for op in self.ops if op.call.kind in ENDING]

    def has(self, kind: Kind) -> bool:
        """It was certainly ended so."""
        return any(op.ok and op.call.kind is kind for op in self.ops)

    def __str__(self) -> str:
        return (f"lease {self.grant.token[-16:]} attempt {self.grant.attempt} "
                f"[{self.call.invoked:.3f}, {self.call.returned:.3f}] by {self.call.client}")


@dataclass(eq=False)
class _Task:
    task_id: str
    queue: str
    enqueue: Call | None = None
    sent: Sent | None = None
    position: int = 0
    leases: list[_Lease] = field(default_factory=list)

    def ops(self, *kinds: Kind) -> list[_Op]:
        return [op for lease in self.leases for op in lease.ops if op.call.kind in kinds]

    @property
    def done(self) -> list[_Op]:
        return [op for op in self.ops(Kind.COMPLETE) if op.ok]

    @property
    def maybe_done(self) -> bool:
        return any(op.may_have_happened for op in self.ops(Kind.COMPLETE))


def check(history: History) -> list[Violation]:
    """Every violation found, in no order that means anything."""
    return _Checker(history).run()


class _Checker:
    def __init__(self, history: History):
        self._history = history
        self._found: list[Violation] = []
        self._tasks: dict[str, _Task] = {}
        self._leases: dict[str, _Lease] = {}
        self._sent: dict[str, tuple[Call, Sent]] = {}
        self._deaths = sorted(history.deaths, key=lambda death: death.begin)
        self._unanswered: dict[str, list[Call]] = collections.defaultdict(list)
        self._confirmed: dict[str, list[Call]] = collections.defaultdict(list)

    def run(self) -> list[Violation]:
        self._index()
        for lease in self._leases.values():
            self._bound_lease(lease)
        for lease in self._leases.values():
            self._check_token(lease)
        for task in self._tasks.values():
            self._check_payload(task)
            self._check_overlap(task)
            self._check_finished(task)
            self._check_attempts(task)
        self._check_order()
        self._check_counts()
        self._check_peeks()
        for queue, final in self._history.final.items():
            self._check_final(queue, final)
        return self._found

    def _report(self, rule: str, text: str) -> None:
        self._found.append(Violation(rule, text))

    # Reading the history.

    def _index(self) -> None:
        calls = sorted(self._history.calls, key=lambda call: call.invoked)
        for call in calls:
            if call.kind is Kind.ENQUEUE:
                self._index_enqueue(call)
        for call in calls:
            if call.kind is Kind.LEASE:
                self._index_lease(call)
        for call in calls:
            for item in call.settled:
                lease = self._leases.get(item.token)
                if lease is not None:
                    lease.ops.append(_Op(call, item))
                elif item.outcome is Outcome.OK:
                    self._report("unknown token accepted", f"{call.kind.value} with token {item.token}")

    def _index_enqueue(self, call: Call) -> None:
        if any(item.outcome is Outcome.OK for item in call.sent):
            self._confirmed[call.queue].append(call)
        for position, item in enumerate(call.sent):
            assert item.payload not in self._sent, "payloads must be unique"
            self._sent[item.payload] = (call, item)
            if item.outcome is not Outcome.OK:
                continue
            if item.task_id in self._tasks:
                self._report("task id given twice", item.task_id)
            self._tasks[item.task_id] = _Task(item.task_id, call.queue, call, item, position)

    def _index_lease(self, call: Call) -> None:
        if call.outcome is Outcome.UNKNOWN:
            self._unanswered[call.queue].append(call)
        for position, grant in enumerate(call.granted):
            if grant.token in self._leases:
                self._report("token given twice", f"{grant.token} for {grant.task_id}")
            lease = _Lease(call, grant, position)
            self._leases[grant.token] = lease
            task = self._tasks.get(grant.task_id)
            if task is None:
                task = self._tasks[grant.task_id] = _Task(grant.task_id, call.queue)
                self._adopt(task, grant)
            if task.queue != call.queue:
                self._report("task in another queue", f"{grant.task_id} of {task.queue} leased from {call.queue}")
            task.leases.append(lease)

    def _adopt(self, task: _Task, grant: Granted) -> None:
        """A task nobody was told of: its enqueue call must have gone unanswered."""
        sent = self._sent.get(grant.payload)
        if sent is None:
            self._report("task from nowhere", f"{task.task_id} with payload {grant.payload!r}")
            return
        call, item = sent
        if item.outcome is Outcome.NO:
            self._report("refused task is there", f"{task.task_id}: its enqueue was refused")
        elif item.outcome is Outcome.OK:
            self._report("task stored twice", f"{item.task_id} and {task.task_id} have one payload")
        elif item.task_id and item.task_id != task.task_id:
            self._report("task stored twice", f"{item.task_id} and {task.task_id} come from one call")
        item.task_id = task.task_id
        task.enqueue, task.sent = call, item
        task.position = call.sent.index(item)

    # When a lease certainly holds, and when it is certainly over.

    def _survives(self, queue: str, known_at: float, death_begin: float) -> bool:
        """What the server knew at `known_at` it remembers over a death: a confirmed write of the queue carried it."""
        return any(known_at <= call.invoked and call.returned <= death_begin for call in self._confirmed[queue])

    def _forgets_after(self, queue: str, known_at: float, invoked: float) -> float:
        """Start of the first death that may have forgotten what was told at `known_at`."""
        for death in self._deaths:
            if death.clean or death.end < invoked:
                continue
            if not self._survives(queue, known_at, death.begin):
                return death.begin
            return _FOREVER  # Written down: later deaths find it as well.
        return _FOREVER

    def _bound_lease(self, lease: _Lease) -> None:
        call, queue = lease.call, lease.call.queue
        sure = call.invoked + lease.grant.time_left
        gone = call.returned + lease.grant.time_left
        last_extend_returned = -_FOREVER
        for op in sorted((op for op in lease.ops if op.call.kind is Kind.EXTEND and op.may_have_happened),
                         key=lambda op: op.call.invoked):
            extended = op.call.invoked + op.item.duration
            ordered = op.call.invoked >= last_extend_returned
            last_extend_returned = max(last_extend_returned, op.call.returned)
            if op.ok and ordered and self._forgets_after(queue, op.call.returned, op.call.invoked) == _FOREVER:
                sure = extended
            else:
                sure = min(sure, extended)
            gone = max(gone, op.call.returned + op.item.duration) if op.ok else _FOREVER
        for op in lease.endings:
            if op.may_have_happened:
                sure = min(sure, op.call.invoked)
        lease.sure_until = min(sure, self._forgets_after(queue, call.returned, call.invoked)) - SLACK
        lease.gone_by = gone + SLACK

    # Tokens.

    def _check_token(self, lease: _Lease) -> None:
        ended = [op for op in lease.endings if op.ok]
        if len(ended) > 1:
            self._report("lease ended twice", f"{lease}: {ended[0]} and {ended[1]}")
        later = [other for other in self._tasks[lease.grant.task_id].leases if lease.before(other)]
        for op in lease.ops:
            if op.ok:
                self._check_success(lease, op, ended, later)
            elif op.item.lost:
                self._check_refusal(lease, op)

    def _check_success(self, lease: _Lease, op: _Op, ended: list[_Op], later: list[_Lease]) -> None:
        for end in ended:
            if end is not op and end.call.returned <= op.call.invoked:
                self._report("ended lease accepted", f"{lease}: {op} after {end}")
        if op.call.invoked > lease.gone_by:
            self._report("expired lease accepted", f"{lease}: {op}, over by {lease.gone_by:.3f}")
        for other in later:
            if other.call.returned <= op.call.invoked:
                self._report("stale token accepted", f"{op} of {lease}, after {other}")
                return

    def _check_refusal(self, lease: _Lease, op: _Op) -> None:
        if any(end is not op and end.may_have_happened and end.call.invoked <= op.call.returned
               for end in lease.endings):
            return
        if lease.call.returned <= op.call.invoked and op.call.returned <= lease.sure_until:
            self._report("good lease refused", f"{lease}: {op}, good until {lease.sure_until:.3f}")

    # Tasks.

    def _check_payload(self, task: _Task) -> None:
        for lease in task.leases:
            if task.sent is not None and lease.grant.payload != task.sent.payload:
                self._report("payload changed", f"{task.task_id}: {task.sent.payload!r} -> {lease.grant.payload!r}")

    def _check_overlap(self, task: _Task) -> None:
        holder: _Lease | None = None
        for lease in sorted(task.leases, key=lambda lease: lease.call.invoked):
            if holder is not None and holder.before(lease) and lease.call.returned < holder.sure_until:
                self._report("two leases at once", f"{task.task_id}: {holder} holds until {holder.sure_until:.3f}, {lease}")
            if holder is None or lease.sure_until > holder.sure_until:
                holder = lease

    def _check_finished(self, task: _Task) -> None:
        done = task.done
        if len(done) > 1:
            self._report("finished twice", f"{task.task_id}: {done[0]} and {done[1]}")
        for lease in task.leases:
            for op in lease.ops:
                final = op.call.kind is Kind.COMPLETE or (op.call.kind is Kind.FAIL and op.item.permanent)
                if not op.ok or not final:
                    continue
                for other in task.leases:
                    # Whoever holds it later shows that the lease was not the task's last.
                    if other is not lease and (lease.before(other) or op.call.returned <= other.call.invoked):
                        self._report("finished task came back", f"{task.task_id}: {other} after {op} of {lease}")

    def _check_attempts(self, task: _Task) -> None:
        for lease in task.leases:
            grant = lease.grant
            if grant.attempt < 1 or (grant.max_attempts > 0 and grant.attempt > grant.max_attempts):
                self._report("attempt out of range", f"{task.task_id}: {grant.attempt} of {grant.max_attempts}")
            if task.sent is not None and task.sent.max_attempts not in (0, grant.max_attempts):
                self._report("max attempts changed",
                             f"{task.task_id}: {task.sent.max_attempts} -> {grant.max_attempts}")
            # Others that end too late to be known may have charged attempts: leases nobody heard of.
            hidden = self._unanswered_before(task.queue, lease.call.returned)
            earlier = [other for other in task.leases if other.before(lease)]
            unordered = sum(1 for other in task.leases if other is not lease and not other.before(lease)
                            and not lease.before(other))
            if not earlier:
                if grant.attempt > 1 + hidden + unordered:
                    self._report("attempts counted wrong", f"{task.task_id}: first {lease}")
                continue
            # Leases whose calls overlap may have come in either order, so any of them may be the last one.
            last = [other for other in earlier if not any(other.before(third) for third in earlier)]
            least = min(other.grant.attempt + other.has(Kind.FAIL) for other in last)
            most = max(other.grant.attempt + (not other.has(Kind.RELEASE)) for other in last) + hidden + unordered
            if not least <= grant.attempt <= most:
                self._report("attempts counted wrong", f"{task.task_id}: {', '.join(map(str, last))}, then {lease}")

    def _unanswered_before(self, queue: str, when: float) -> int:
        return bisect.bisect_left(self._unanswered[queue], when, key=lambda call: call.invoked)

    # Order.

    def _blurred(self, queue: str) -> list[tuple[float, float]]:
        """Times in which a lease call that nobody heard of may have held tasks and given them back in their place."""
        spans = []
        for call in self._unanswered[queue]:
            end = call.returned + LATE_EFFECT
            for death in self._deaths:
                if death.end >= call.invoked:
                    # What it held is forgotten there, and it cannot take more.
                    end = min(end, max(death.end, call.returned)) if death.begin <= call.returned else death.end
                    break
            spans.append((call.invoked, end))
        spans.sort()
        merged: list[tuple[float, float]] = []
        for begin, end in spans:
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((begin, end))
        return merged

    def _check_order(self) -> None:
        """A task that was never leased before comes before those that were enqueued after it was acknowledged."""
        by_queue: dict[str, list[tuple[_Task, _Lease]]] = collections.defaultdict(list)
        for task in self._tasks.values():
            if task.enqueue is None or task.sent is None or task.sent.outcome is not Outcome.OK or not task.leases:
                continue
            first = min(task.leases, key=lambda lease: lease.call.invoked)
            if first.grant.attempt == 1:
                by_queue[task.queue].append((task, first))
        for queue, entries in by_queue.items():
            self._check_queue_order(queue, entries)

    def _check_queue_order(self, queue: str, entries: list[tuple[_Task, _Lease]]) -> None:
        blurred = self._blurred(queue)
        starts = [begin for begin, _ in blurred]

        def clear(begin: float, end: float) -> bool:
            at = bisect.bisect_right(starts, end) - 1
            return at < 0 or blurred[at][1] < begin

        returned = sorted(entries, key=lambda entry: entry[1].call.returned)
        taken = 0
        youngest: tuple[_Task, _Lease] | None = None  # Of those leased so far, the one enqueued last.
        for task, lease in sorted(entries, key=lambda entry: entry[1].call.invoked):
            while taken < len(returned) and returned[taken][1].call.returned <= lease.call.invoked:
                candidate = returned[taken]
                if youngest is None or candidate[0].enqueue.invoked > youngest[0].enqueue.invoked:  # type: ignore[union-attr]
                    youngest = candidate
                taken += 1
            assert task.enqueue is not None
            if youngest is None or not clear(task.enqueue.invoked, lease.call.returned):
                continue
            other, other_lease = youngest
            assert other.enqueue is not None
            if task.enqueue.returned <= other.enqueue.invoked:
                self._report("order broken", f"{task.task_id} {lease} after {other.task_id} {other_lease}, enqueued later")
        by_enqueue: dict[int, list[tuple[_Task, _Lease]]] = collections.defaultdict(list)
        by_call: dict[int, list[tuple[_Task, _Lease]]] = collections.defaultdict(list)
        for entry in entries:
            by_enqueue[id(entry[0].enqueue)].append(entry)
            by_call[id(entry[1].call)].append(entry)
        for group in by_enqueue.values():
            group.sort(key=lambda entry: entry[0].position)
            for number, (front, front_lease) in enumerate(group):
                for behind, behind_lease in group[number + 1:]:
                    assert front.enqueue is not None
                    if behind_lease.before(front_lease) and clear(front.enqueue.invoked, front_lease.call.returned):
                        self._report("order broken", f"{front.task_id} {front_lease} after {behind.task_id} {behind_lease},"
                                     " behind it in one enqueue call")
        for group in by_call.values():
            group.sort(key=lambda entry: entry[1].position)
            for (a, lease_a), (b, lease_b) in zip(group, group[1:]):
                assert a.enqueue is not None and b.enqueue is not None
                same = a.enqueue is b.enqueue and a.position > b.position
                if (same or b.enqueue.returned <= a.enqueue.invoked) \
                        and clear(b.enqueue.invoked, lease_b.call.returned):
                    self._report("order broken", f"{b.task_id} behind {a.task_id} in one reply: {lease_a}")

    # Counts.

    def _check_counts(self) -> None:
        for queue in {call.queue for call in self._history.calls}:
            accepted = _Bounds()
            done = _Bounds()
            for call in self._history.calls:
                if call.queue != queue:
                    continue
                for sent in call.sent:
                    accepted.add(call, sent.outcome)
                if call.kind is Kind.COMPLETE:
                    for item in call.settled:
                        done.add(call, item.outcome)
            for call in self._history.calls:
                if call.queue == queue and call.kind is Kind.DESCRIBE and call.counts:
                    self._check_describe(call, accepted, done)

    def _check_describe(self, call: Call, accepted: _Bounds, done: _Bounds) -> None:
        counts = call.counts
        if counts["accepted"] != sum(counts[name] for name in ("done", "waiting", "leased", "dead", "dropped")):
            self._report("counts do not add up", f"{call.queue}: {counts}")
        if min(counts.values()) < 0:
            self._report("count below zero", f"{call.queue}: {counts}")
        if call.rows and not _adds_up(call.rows):
            self._report("stored rows do not add up", f"{call.queue}: {call.rows}")
        for name, bounds in (("accepted", accepted), ("done", done)):
            least, most = bounds.at(call)
            if not least <= counts[name] <= most:
                self._report("count wrong", f"{call.queue}: {name} {counts[name]}, should be {least} to {most}")

    def _check_peeks(self) -> None:
        finished = {task.task_id: min(op.call.returned for op in task.done) for task in self._tasks.values() if task.done}
        for call in self._history.calls:
            for seen in call.seen:
                if finished.get(seen.task_id, _FOREVER) <= call.invoked:
                    self._report("finished task shown", f"{seen.task_id} as {seen.state}")

    # The end.

    def _check_final(self, queue: str, final: Final) -> None:
        rows = final.rows
        if not _adds_up(rows):
            self._report("stored rows do not add up", f"{queue}: {rows}")
        if rows["task_rows"] != len(final.left) or rows["dead_rows"] != len(final.dead):
            self._report("stored rows do not add up", f"{queue}: {rows}, shown {len(final.left)} and {len(final.dead)}")
        dead, left = set(final.dead), set(final.left)
        known = {task.task_id: task for task in self._tasks.values() if task.queue == queue}
        may_drop = any(task.sent and task.sent.time_to_live is not None for task in known.values())
        unseen_max = sum(1 for call in self._history.calls if call.queue == queue for sent in call.sent
                         if sent.outcome is Outcome.UNKNOWN and not sent.task_id)
        for task in known.values():
            self._check_fate(task, task.task_id in dead, task.task_id in left)
        # Of unanswered calls only what nobody saw since may be counted besides.
        extra = unseen_max if may_drop or left or dead - set(known) else 0
        if not len(known) <= final.counts["accepted"] <= len(known) + extra:
            self._report("count wrong", f"{queue}: accepted {final.counts['accepted']}, known {len(known)} + {extra}")
        sure = sum(1 for task in known.values() if task.done)
        maybe = sum(1 for task in known.values() if not task.done and task.maybe_done and task.task_id not in dead | left)
        if not sure <= final.counts["done"] <= sure + maybe:
            self._report("count wrong", f"{queue}: done {final.counts['done']}, should be {sure} to {sure + maybe}")
        if not may_drop and final.counts["dropped"] != 0:
            self._report("count wrong", f"{queue}: dropped {final.counts['dropped']}")

    def _check_fate(self, task: _Task, dead: bool, left: bool) -> None:
        fails = [op for op in task.ops(Kind.FAIL) if op.may_have_happened]
        if task.done and (dead or left):
            self._report("finished task came back", f"{task.task_id} is stored at the end")
        if dead and left:
            self._report("task stored twice", f"{task.task_id} is dead and waiting")
        if any(op.ok and op.item.permanent for op in fails) and not dead:
            self._report("dead task lost", task.task_id)
        if dead and not any(op.item.permanent for op in fails):
            used_up = task.sent is None or task.sent.max_attempts > 0
            if not used_up:
                self._report("dead without cause", task.task_id)
        expires = task.sent is not None and task.sent.time_to_live is not None
        if not (task.maybe_done or dead or left or expires):
            self._report("acknowledged task lost", f"{task.task_id}, enqueued {task.enqueue and task.enqueue.invoked}")


def _adds_up(rows: dict[str, int]) -> bool:
    return (rows["accepted"] == rows["done"] + rows["task_rows"] + rows["dead"] + rows["dropped"]
            and rows["dead_rows"] == rows["dead_total"])


class _Bounds:
    """How many items had happened for sure, and at most, when a call looked."""

    def __init__(self) -> None:
        self._sure: list[float] = []
        self._possible: list[float] = []
        self._sorted = False

    def add(self, call: Call, outcome: Outcome) -> None:
        if outcome is Outcome.OK:
            self._sure.append(call.returned)
        if outcome is not Outcome.NO:
            self._possible.append(call.invoked)

    def at(self, call: Call) -> tuple[int, int]:
        if not self._sorted:
            self._sure.sort()
            self._possible.sort()
            self._sorted = True
        return bisect.bisect_right(self._sure, call.invoked), bisect.bisect_right(self._possible, call.returned)
