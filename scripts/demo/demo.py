"""See scripts/quickstart-demo."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "system")]

import audit  # noqa: E402
import harness  # noqa: E402
import millrace  # noqa: E402
import records  # noqa: E402

QUEUE = "packages"
# Nothing here takes this long; it ends a run that hangs.
PATIENCE = 1800.0


def say(text: str = "") -> None:
    print(text, flush=True)


class Run:
    """One demonstration: a server, its killer, a producer and two kinds of workers."""

    def __init__(self, folder: pathlib.Path, kills: int):
        self.folder = folder
        self.kills = kills
        self.killed = 0
        self.server = harness.Server(folder)
        self.binary = harness.find_binary()
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, arguments: list[str], **options) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(arguments, env={**harness.clean_environment(), **options.pop("env", {})}, **options)
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self.server.close()

    def kill_server(self, where: str) -> None:
        began = time.monotonic()
        self.server.restart()
        self.killed += 1
        say(f"  SIGKILL {self.killed} of {self.kills} {where}; back after {time.monotonic() - began:.2f} s")

    # Putting in.

    def enqueue(self, wanted: list[bytes], kills: int) -> list[str]:
        """Pipes the records to `millrace task enqueue`; returns the acknowledged ids, one per record, in order."""
        process = self.start(
            [str(self.binary), "task", "enqueue", QUEUE, "--from-file", "-", "--format", "rfc822", "--batch", "256",
             "-o", "jsonl", "--address", self.server.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ids: list[str] = []

        def feed() -> None:
            with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                for record in wanted:
                    pipe.write(record + b"\n")

        def collect() -> None:
            for line in process.stdout:
                ids.append(json.loads(line)["task_id"])

        threads = [threading.Thread(target=feed, daemon=True), threading.Thread(target=collect, daemon=True)]
        for thread in threads:
            thread.start()
        for number in range(1, kills + 1):
            target = len(wanted) * number // (kills + 1)
            self._wait(lambda: len(ids) >= target or process.poll() is not None, f"{target} records are stored")
            if process.poll() is None:
                self.kill_server(f"while records go in ({len(ids):,} acknowledged)")
        self._wait(lambda: process.poll() is not None, "all records are stored")
        for thread in threads:
            thread.join()
        if process.returncode != 0:
            raise RuntimeError(f"millrace task enqueue ended with exit code {process.returncode}")
        return ids

    def inventory(self) -> dict[str, str]:
        """Every task the server holds: id -> identity of its payload."""
        with self.server.client(timeout=60) as client:
            return {task.task_id: records.identity(task.data) for task in client.peek(QUEUE, page_size=500)}

    # Draining.

    def drain(self, total: int, slots: int) -> None:
        """Runs both workers until the queue is empty, killing the server at even distances."""
        workers = {
            "millrace work": self.start(
                [str(self.binary), "work", QUEUE, "--exec", f"awk -f '{HERE / 'check-record.awk'}'", "--slots",
                 str(slots), "--lease", "10s", "--until-empty", "--journal", str(self.exec_ledger), "--address",
                 self.server.address], env={"LEDGER": str(self.exec_notes)}),
            "python": self.start(
                [sys.executable, str(HERE / "python_worker.py"), self.server.address, QUEUE, str(self.python_ledger),
                 str(slots)]),
        }
        kills = self.kills - self.killed
        for number in range(1, kills + 1):
            target = total * number // (kills + 1)
            self._wait(lambda: self.done() >= target or not any(w.poll() is None for w in workers.values()),
                       f"{target} tasks are done")
            self.kill_server(f"while workers run ({self.done():,} done)")
        for name, process in workers.items():
            self._wait(lambda: process.poll() is not None, f"{name} ends")
            if process.returncode != 0:
                raise RuntimeError(f"{name} ended with exit code {process.returncode}")

    @property
    def exec_ledger(self) -> pathlib.Path:
        return self.folder / "exec-ledger.jsonl"

    @property
    def exec_notes(self) -> pathlib.Path:
        return self.folder / "exec-notes.txt"

    @property
    def python_ledger(self) -> pathlib.Path:
        return self.folder / "python-ledger.jsonl"

    def counts(self) -> millrace.QueueCounts:
        with self.server.client() as client:
            return client.describe(QUEUE).counts

    def done(self) -> int:
        return self.counts().done

    def _wait(self, condition, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"still not so after {PATIENCE:.0f} s: {what}")
            time.sleep(0.02)


# What `millrace work` calls two of the outcomes.
SAME_OUTCOME = {"unconfirmed": "uncertain", "unreported": "abandoned"}


def read_endings(path: pathlib.Path) -> Iterator[audit.Ending]:
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        yield audit.Ending(entry["task_id"], SAME_OUTCOME.get(entry["outcome"], entry["outcome"]))


def check_notes(path: pathlib.Path, stored: dict[str, records.Package]) -> tuple[int, int]:
    """(executions, wrong): what the exec'd command found in each record against the input."""
    executions = wrong = 0
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        task_id, _, *found = line.split(" ")
        executions += 1
        wrong += stored.get(task_id) != records.Package(*found)
    return executions, wrong


def demonstrate(run: Run, count: int | None) -> list[str]:
    """Runs it, prints the story and the audit, and returns what is wrong."""
    wanted = records.split_records(records.read_index(), count)
    by_identity = {records.identity(record): record for record in wanted}
    megabytes = sum(map(len, wanted)) / 1e6
    say(f"input: {len(wanted):,} package records, {megabytes:.1f} MB, each known by the SHA-256 of its text")
    run.server.start()
    say(f"server: {run.server.address}, data in {run.server.data_dir}")
    say()

    say("enqueue: apt-cache dumpavail | millrace task enqueue packages --from-file - --format rfc822")
    began = time.monotonic()
    acknowledged = run.enqueue(wanted, 1 if run.kills > 1 else 0)
    took = time.monotonic() - began
    say(f"  {len(acknowledged):,} acknowledged in {took:.1f} s ({len(acknowledged) / took:,.0f}/s)")
    stored = run.inventory()
    say(f"  {len(stored):,} tasks in the store")
    say()

    say("drain: millrace work packages --exec 'awk -f scripts/demo/check-record.awk', and the Python worker")
    began = time.monotonic()
    run.drain(len(stored), slots=8)
    took = time.monotonic() - began
    say(f"  {len(stored):,} tasks in {took:.1f} s ({len(stored) / took:,.0f}/s)")
    say()

    counts = run.counts()
    verdict = audit.check(audit.Books(
        records=[records.identity(record) for record in wanted],
        acknowledged=acknowledged,
        stored=stored,
        endings={"millrace work": list(read_endings(run.exec_ledger)), "python": list(read_endings(run.python_ledger))},
        accepted=counts.accepted, done=counts.done, waiting=counts.waiting, leased=counts.leased, dead=counts.dead,
        dropped=counts.dropped))
    packages = {i: records.parse(by_identity[r]) for i, r in stored.items() if r in by_identity}
    executions, wrong = check_notes(run.exec_notes, packages)
    if wrong:
        verdict.problems.append(f"the command found other contents than were sent in {wrong} records")
    told = subprocess.run([str(run.binary), "audit", QUEUE, "--address", run.server.address],
                          env=harness.clean_environment(), capture_output=True, text=True)
    if told.returncode != 0:
        verdict.problems.append(f"millrace audit: exit code {told.returncode}: {told.stderr.strip()}")
    if run.killed < run.kills:
        verdict.problems.append(f"only {run.killed} of {run.kills} kills happened")
    print_audit(run, verdict, executions, told.stdout)
    return verdict.problems


def print_audit(run: Run, verdict: audit.Verdict, executions: int, told: str) -> None:
    def row(number: int, what: str, note: str = "") -> None:
        say(f"  {number:>9,}  {what}" + (f"  ({note})" if note else ""))

    say("audit")
    row(verdict.records, "records in")
    row(verdict.records_done, "records done")
    row(verdict.lost, "lost")
    row(verdict.finished_twice, "finished twice", "two successful completions of one task")
    row(run.killed, "kills of the server")
    say("how")
    for worker, number in verdict.confirmed.items():
        row(number, f"completions confirmed to {worker}")
    row(verdict.resolved, "completions whose reply a kill took",
        "the repeated call found no lease; the server's count says done, once")
    row(verdict.lease_lost, "leases lost", "the task went to another worker, whose completion counts")
    row(executions, "commands run by millrace work")
    row(verdict.stored_twice, "stored twice by producer retry",
        "a kill took the reply to an enqueue; both tasks were done")
    say("conservation, as the server counts: millrace audit packages")
    for line in told.splitlines():
        say(f"  {line}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/quickstart-demo", description=__doc__)
    parser.add_argument("--records", type=int, help="how many records of the index (default: all)")
    parser.add_argument("--kills", type=int, default=5, help="how often the server is killed (default: 5)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with data, logs and ledgers")
    args = parser.parse_args()
    if (args.records is not None and args.records < 1) or args.kills < 0:
        parser.error("--records must be at least 1, --kills at least 0")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-demo-"))
    run = Run(folder, args.kills)
    problems: list[str] = []
    try:
        problems = demonstrate(run, args.records)
    except (records.InputError, RuntimeError, AssertionError, millrace.MillraceError, FileNotFoundError) as error:
        problems = [str(error)]
    finally:
        run.close()
        if args.keep or problems:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder)
    say()
    for problem in problems:
        say(f"VIOLATED: {problem}")
    say("FAILED" if problems else "ok: every record done, none lost, none finished twice")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
