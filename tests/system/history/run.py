"""One run: a server, many clients, a plan of faults; then a drain, a last crash, and the check.

    scripts/history [--seconds N] [--seed S] [--keep FILE] [--no-disk-faults] [--mutant NAME]
    scripts/history --check FILE
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import sys
import tempfile
import time

import disk_faults
import millrace
from disk_faults import Disk
from harness import Server, find_binary, running, wait_until

from .checker import Violation, check
from .nemesis import Nemesis, make_plan
from .proxy import Proxy
from .records import Final, History, Kind, Outcome
from .workload import Caller, Recorder, Workload, rows_of


def run(server: Server, seed: int, seconds: float, *, disk: Disk | None = None, tell=lambda _: None) -> tuple[History, list[str]]:
    """Runs against a server that is up; leaves it up. Returns the history and the answers nobody can explain."""
    history = History()
    recorder = Recorder()
    proxy = Proxy(server.address)
    plan = make_plan(seed, seconds, disk=disk is not None)
    workload = Workload([proxy.address, server.address], recorder, seed)
    try:
        workload.start()
        Nemesis(server, proxy, history, disk).run(plan, tell)
    finally:
        workload.stop()
        proxy.close()
    tell("drain")
    _drain(server, recorder)
    # What the clients were told must have survived a last crash as well.
    server.restart()
    history.calls = recorder.calls
    for queue in _used(recorder):
        history.final[queue] = _look(server, queue)
    return history, recorder.surprises


def _used(recorder: Recorder) -> list[str]:
    return sorted({call.queue for call in recorder.calls})


def _drain(server: Server, recorder: Recorder) -> None:
    caller = Caller("drain", server.address, recorder)

    def empty(queue: str) -> bool:
        counts = caller.describe(queue)
        if counts is None:
            return False
        if counts["waiting"] == 0 and counts["leased"] == 0:
            return True
        tokens = [grant.token for grant in caller.lease(queue, 1000, 60.0, 0.2)]
        if tokens:
            caller.settle(Kind.COMPLETE, queue, tokens)
        return False

    try:
        for queue in _used(recorder):
            # One that was only asked about is not there.
            caller.enqueue(queue, 1, 0, None)
            wait_until(lambda: empty(queue), f"{queue} is empty", 120)  # noqa: B023
    finally:
        caller.close()


def _look(server: Server, queue: str) -> Final:
    with server.client() as client:
        dead = [task.task_id for task in client.peek(queue, millrace.TaskState.DEAD, payloads=False, page_size=1000)]
        left = [task.task_id for task in client.peek(queue, payloads=False, page_size=1000)]
    counts, rows = rows_of(server.address, queue)
    return Final(counts, rows, dead, left)


def summary(history: History) -> str:
    outcomes: collections.Counter[str] = collections.Counter()
    for call in history.calls:
        outcomes[call.outcome.value] += 1
    sent = sum(1 for call in history.calls for item in call.sent if item.outcome is Outcome.OK)
    leases = sum(len(call.granted) for call in history.calls)
    done = sum(1 for call in history.calls if call.kind is Kind.COMPLETE
               for item in call.settled if item.outcome is Outcome.OK)
    refused = sum(1 for call in history.calls for item in call.settled if item.lost)
    return (f"{len(history.calls)} calls ({outcomes['ok']} ok, {outcomes['no']} refused, {outcomes['unknown']} unanswered), "
            f"{sent} tasks acknowledged, {leases} leases, {done} completions, {refused} lost leases refused, "
            f"{len(history.deaths)} deaths")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/history", description="Checks recorded histories of a real server.")
    parser.add_argument("--seconds", type=float, default=60, help="of faults; the drain comes on top")
    parser.add_argument("--seed", type=int, help="of the plan; a fresh one unless given")
    parser.add_argument("--keep", type=pathlib.Path, help="file for the history; kept anyhow when it breaks a rule")
    parser.add_argument("--check", type=pathlib.Path, help="checks a kept history instead")
    parser.add_argument("--no-disk-faults", action="store_true")
    parser.add_argument("--mutant", help="a deliberate bug of scripts/mutation that the server runs with")
    options = parser.parse_args(arguments)
    if options.check:
        return _judge(History.load(options.check))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"scripts/history --seconds {options.seconds:g} --seed {seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="millrace-history-") as folder:
        server, disk = make_server(pathlib.Path(folder), disk=not options.no_disk_faults, mutant=options.mutant)
        with running(server):
            history, surprises = run(server, seed, options.seconds, disk=disk,
                                     tell=lambda text: print(f"{time.monotonic() - begin:7.1f} {text}", flush=True))
    print(summary(history))
    for text in surprises:
        print(f"unexplained answer: {text}")
    status = _judge(history) or (1 if surprises else 0)
    keep = options.keep or (pathlib.Path(f"history-{seed}.jsonl") if status else None)
    if keep:
        history.save(keep)
        print(f"the history is in {keep}")
    return status


def make_server(folder: pathlib.Path, *, disk: bool, mutant: str | None = None) -> tuple[Server, Disk | None]:
    """Not started. Its disk can fail where the build has the means for it."""
    flags = ("--limits-lease-min", "100ms")
    if disk and disk_faults.library(find_binary()).exists():
        server, faulty = disk_faults.make_server(folder, *flags)
    else:
        server, faulty = Server(folder, *flags), None
    if mutant:
        server.environment["MILLRACE_MUTANT"] = mutant
    return server, faulty


def _judge(history: History) -> int:
    found: list[Violation] = check(history)
    for violation in found:
        print(f"VIOLATION {violation}")
    print("no rule broken" if not found else f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
