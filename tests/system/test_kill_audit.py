"""Ten thousand tasks, workers at full speed, a server that is killed again and again; then the books are checked."""

import collections
import random
import threading

import pytest

import millrace
from harness import wait_until
from millrace import Outcome

TASKS = 10_000
BATCH = 200


class Ledger:
    """What the workers saw and what the server told them, by task id. Threads: any."""

    def __init__(self):
        self._lock = threading.Lock()
        self.payloads: dict[str, bytes] = {}
        self.outcomes: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self.violations: list[str] = []

    def handle(self, job):
        with self._lock:
            if self.outcomes[job.task_id][Outcome.COMPLETED]:
                self.violations.append(f"{job.task_id} was handed out after its completion was confirmed")
            if self.payloads.setdefault(job.task_id, job.data) != job.data:
                self.violations.append(f"{job.task_id} changed its payload")

    def settled(self, job, outcome):
        with self._lock:
            self.outcomes[job.task_id][outcome] += 1
            if self.outcomes[job.task_id][Outcome.COMPLETED] > 1:
                self.violations.append(f"{job.task_id} was completed twice")

    def ids(self, *outcomes):
        with self._lock:
            return {i for i, c in self.outcomes.items() if any(c[o] for o in outcomes)}


class Producer:
    """Enqueues everything, repeating what went unanswered; remembers each id the server acknowledged."""

    def __init__(self, client, payloads):
        self.ids: dict[str, bytes] = {}
        self.repeated: set[bytes] = set()
        self._client = client
        self._payloads = payloads
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for start in range(0, len(self._payloads), BATCH):
            todo = self._payloads[start:start + BATCH]
            while todo:
                try:
                    results = self._client.enqueue_many("q", todo)
                except millrace.MillraceError as error:
                    if not error.surely_not_done:
                        self.repeated.update(todo)
                    continue
                self.ids.update((r.task_id, p) for r, p in zip(results, todo) if r.ok)
                todo = [p for r, p in zip(results, todo) if not r.ok]

    def join(self, patience=120):
        self._thread.join(patience)
        assert not self._thread.is_alive(), "the producer did not end"


@pytest.mark.slow
def test_nothing_is_lost_or_finished_twice(server):
    payloads = [b"record %d" % i for i in range(TASKS)]
    rng = random.Random(20)
    ledger = Ledger()
    watcher = server.client()

    def done():
        try:
            return watcher.describe("q").counts.done
        except millrace.MillraceError:
            return 0

    with server.client() as producing:
        producer = Producer(producing, payloads)
        wait_until(lambda: len(producer.ids) >= TASKS // 10, "a tenth is enqueued")
        server.restart()

        workers, threads, clients = [], [], []
        for number in range(3):
            client = server.client()
            worker = millrace.Worker(client, "q", ledger.handle, slots=16, lease_duration=2, worker_id=f"w{number}",
                                     on_settled=ledger.settled)
            thread = threading.Thread(target=worker.run, daemon=True)
            thread.start()
            workers.append(worker)
            threads.append(thread)
            clients.append(client)

        kills = sorted(rng.sample(range(TASKS // 20, TASKS * 9 // 10), 6))
        for target in kills:
            wait_until(lambda: done() >= target, f"{target} tasks are done", 120)
            server.restart()
        producer.join()

    def finished():
        try:
            counts = watcher.describe("q").counts
        except millrace.MillraceError:
            return False
        return counts.waiting == 0 and counts.leased == 0

    wait_until(finished, "the queue is empty", 120)
    for worker in workers:
        worker.stop()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()

    assert ledger.violations == []
    counts = watcher.describe("q").counts
    assert counts.conserved, str(counts)
    assert (counts.waiting, counts.leased, counts.dead, counts.dropped) == (0, 0, 0, 0)
    assert counts.done == counts.accepted

    completed, uncertain = ledger.ids(Outcome.COMPLETED), ledger.ids(Outcome.UNCERTAIN)
    # No acknowledged task is lost: each was completed, or a try to complete it went unanswered and its lease is gone.
    assert set(producer.ids) <= completed | uncertain
    # The server counts each of them done exactly once.
    assert counts.done == len(completed | uncertain)
    # Whatever is stored twice was sent twice because its first reply was lost.
    by_payload = collections.Counter(ledger.payloads.values())
    assert set(by_payload) == set(payloads)
    assert {p for p, n in by_payload.items() if n > 1} <= producer.repeated
    assert all(ledger.payloads[i] == p for i, p in producer.ids.items())

    # And a last crash brings nothing back.
    server.restart()
    assert watcher.describe("q").counts == counts
    assert watcher.lease("q", wait=0) == []
    for client in [*clients, watcher]:
        client.close()
