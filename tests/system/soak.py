"""A soak: PostgreSQL, three nodes, producers and workers on several queues, and a fault every few seconds; then the audit.

    scripts/soak --minutes 30 [--seed S] [--every SECONDS] [--keep]
"""

from __future__ import annotations

import argparse
import collections
import logging
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

import millrace
import postgres
from harness import PATIENCE, find_binary, wait_until
from history.workload import rows_of
from millrace import Outcome
from nodes import Nodes, metric, pause

QUEUES = [f"soak/{number}" for number in range(8)]
# Tasks a second that producers aim at, all together.
RATE = 300
FAULTS = ("kill", "stop", "pause", "restart the database", "end sessions")


class Books:
    """What producers and workers were told. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.refused = 0
        self.unknown = 0
        self.completed: collections.Counter[str] = collections.Counter()
        self.uncertain: set[str] = set()
        self.latest_progress = time.monotonic()
        self.longest_standstill = 0.0

    def sent(self, results: list[millrace.client.EnqueueResult]) -> None:
        with self._lock:
            self.acknowledged.update(result.task_id for result in results if result.ok)
            for result in results:
                if not result.ok:
                    self._not_sent(result.error, 1)

    def failed(self, error: millrace.MillraceError, count: int) -> None:
        with self._lock:
            self._not_sent(error, count)

    def _not_sent(self, error: millrace.MillraceError, count: int) -> None:
        if error.surely_not_done:
            self.refused += count
        else:
            self.unknown += count

    def settled(self, job: millrace.Job, outcome: Outcome) -> None:
        with self._lock:
            if outcome is Outcome.COMPLETED:
                self.completed[job.task_id] += 1
                now = time.monotonic()
                self.longest_standstill = max(self.longest_standstill, now - self.latest_progress)
                self.latest_progress = now
            elif outcome is Outcome.UNCERTAIN:
                self.uncertain.add(job.task_id)


class Traffic:
    """Producers and workers at every node."""

    def __init__(self, nodes: Nodes, books: Books, seed: int):
        self._books = books
        self._stop = threading.Event()
        self._clients = [server.client(timeout=20) for server in nodes.servers]
        self._workers: list[millrace.Worker] = []
        self._producers: list[threading.Thread] = []
        self._threads: list[threading.Thread] = []
        for number, queue in enumerate(QUEUES):
            for shift in (0, 1):
                worker = millrace.Worker(self._clients[(number + shift) % len(self._clients)], queue, lambda job: None,
                                         slots=8, lease_duration=10, worker_id=f"{queue}-{shift}", on_settled=books.settled)
                self._workers.append(worker)
                self._threads.append(threading.Thread(target=worker.run, daemon=True))
        for number, client in enumerate(self._clients):
            rng = random.Random(f"{seed}/{number}")
            self._producers.append(threading.Thread(target=self._produce, args=(client, rng), daemon=True))
        for thread in [*self._threads, *self._producers]:
            thread.start()

    def _produce(self, client: millrace.Client, rng: random.Random) -> None:
        pause = 10 * len(self._producers or self._clients) / RATE
        while not self._stop.wait(pause * rng.uniform(0.5, 1.5)):
            count = rng.choice((1, 5, 10, 24))
            try:
                self._books.sent(client.enqueue_many(rng.choice(QUEUES), [rng.randbytes(100) for _ in range(count)]))
            except millrace.MillraceError as error:
                self._books.failed(error, count)

    def stop_producing(self) -> None:
        self._stop.set()
        for thread in self._producers:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a producer hangs"

    def stop_working(self) -> None:
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a worker hangs"
        for client in self._clients:
            client.close()


def strike(nodes: Nodes, database: postgres.Postgres, what: str, rng: random.Random, rest: threading.Event) -> None:
    """One fault and its repair."""
    server = rng.choice(nodes.servers)
    if what == "kill":
        server.kill()
        rest.wait(rng.choice((0, 2, 8)))
        server.start()
    elif what == "stop":
        assert server.terminate() == 0
        rest.wait(rng.choice((0, 2, 8)))
        server.start()
    elif what == "pause":
        pause(server)
        rest.wait(8)
        server.send(signal.SIGCONT)
    elif what == "restart the database":
        database.stop(signal.SIGQUIT)
        rest.wait(rng.choice((0, 1, 7)))
        database.start()
    else:
        database.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND"
                     " backend_type = 'client backend'")


def audit(nodes: Nodes, books: Books) -> dict[str, int]:
    """Every book must agree. Totals over all queues."""
    totals: collections.Counter[str] = collections.Counter()
    for queue in QUEUES:
        counts, rows = rows_of(nodes.servers[0].address, queue)
        totals.update(counts)
        assert counts["accepted"] == sum(counts[n] for n in ("done", "waiting", "leased", "dead", "dropped")), (queue, counts)
        assert rows["accepted"] == rows["done"] + rows["task_rows"] + rows["dead"] + rows["dropped"], (queue, rows)
        assert rows["task_rows"] == 0 and rows["dead_rows"] == rows["dead_total"] == 0, (queue, rows)
    assert totals["done"] == totals["accepted"] and totals["dropped"] == 0, dict(totals)
    finished = set(books.completed) | books.uncertain
    lost = books.acknowledged - finished
    assert not lost, f"{len(lost)} acknowledged tasks were never finished by anybody: {sorted(lost)[:5]}"
    twice = [task for task, times in books.completed.items() if times > 1]
    assert not twice, f"{len(twice)} tasks were completed twice: {sorted(twice)[:5]}"
    acknowledged = len(books.acknowledged)
    assert acknowledged <= totals["accepted"] <= acknowledged + books.unknown, (acknowledged, books.unknown, dict(totals))
    return dict(totals)


def drained(nodes: Nodes) -> bool:
    with nodes.servers[0].client() as client:
        try:
            counts = [client.describe(queue).counts for queue in QUEUES]
        except millrace.MillraceError:
            return False
    return all(count.waiting == 0 and count.leased == 0 for count in counts)


def soak(binary: pathlib.Path, folder: pathlib.Path, minutes: float, seed: int, every: float, tell) -> str:
    rng = random.Random(f"soak {seed}")
    rest = threading.Event()
    faults: collections.Counter[str] = collections.Counter()
    database = postgres.Postgres()
    nodes = None
    begin = time.monotonic()
    try:
        nodes = Nodes(binary, database, folder, 3).start()
        books = Books()
        with nodes.servers[0].client() as client:
            for queue in QUEUES:
                books.sent(client.enqueue_many(queue, [b"first"]))
        traffic = Traffic(nodes, books, seed)
        end = time.monotonic() + minutes * 60
        bag: list[str] = []
        while time.monotonic() < end:
            rest.wait(min(rng.uniform(0.5, 1.5) * every, max(0.0, end - time.monotonic())))
            bag = bag or rng.sample(FAULTS, len(FAULTS))
            what = bag.pop()
            tell(f"{what}; so far {len(books.acknowledged)} acknowledged, {len(books.completed)} completed")
            strike(nodes, database, what, rng, rest)
            faults[what] += 1
        traffic.stop_producing()
        tell("drain")
        wait_until(lambda: drained(nodes), "all queues are drained", 240)
        traffic.stop_working()
        nodes.wait_settled()
        totals = audit(nodes, books)
        moved = sum(metric(server, "millrace_node_queues_moved_total") for server in nodes.servers)
        passed_on = sum(metric(server, "millrace_node_calls_passed_on_total") for server in nodes.servers)
    finally:
        if nodes is not None:
            for server in nodes.servers:
                if server.running:
                    server.send(signal.SIGCONT)
            nodes.close()
        database.close()
    return (f"{minutes:g} min, 3 nodes, seed {seed}: {sum(faults.values())} faults ("
            + ", ".join(f"{count} {what}" for what, count in sorted(faults.items()))
            + f"), {totals['accepted']} tasks accepted, all finished once, {books.unknown} sent with unknown outcome,"
            f" {books.refused} refused, longest standstill {books.longest_standstill:.1f} s; of the last lives of the nodes:"
            f" {passed_on:.0f} calls passed on, {moved:.0f} queues moved; {time.monotonic() - begin:.0f} s in all")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="of faults; the drain comes on top")
    parser.add_argument("--seed", type=int, help="of the plan; a fresh one unless given")
    parser.add_argument("--every", type=float, default=20, help="seconds between faults, on average")
    parser.add_argument("--keep", action="store_true", help="keep the servers' logs")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"scripts/soak --minutes {options.minutes:g} --seed {seed} --every {options.every:g}", flush=True)
    # What a worker could not finish is the daily bread here.
    logging.getLogger("millrace").setLevel(logging.CRITICAL)
    begin = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-soak-"))
    ok = False
    try:
        line = soak(find_binary(), folder, options.minutes, seed, options.every,
                    lambda text: print(f"{time.monotonic() - begin:7.1f} {text}", flush=True))
        ok = True
        print(line)
    finally:
        if ok and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"logs are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
