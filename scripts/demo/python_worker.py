"""The demonstration's Python half: parses and checks records, and keeps a ledger of how each task ended.

    python python_worker.py ADDRESS QUEUE LEDGER SLOTS
"""

from __future__ import annotations

import json
import logging
import signal
import sys

import millrace
import records


def handle(job: millrace.Job) -> None:
    try:
        records.parse(job.data)
    except ValueError as error:
        raise millrace.PermanentError(str(error)) from error


def main() -> int:
    address, queue, ledger_path, slots = sys.argv[1:]
    logging.basicConfig(level=logging.ERROR, format="python worker: %(message)s")
    with open(ledger_path, "a", encoding="utf-8", buffering=1) as ledger, millrace.Client(address) as client:

        def note(job: millrace.Job, outcome: millrace.Outcome) -> None:
            entry = {"task_id": job.task_id, "outcome": outcome.value, "record": records.identity(job.data)}
            ledger.write(json.dumps(entry) + "\n")

        worker = millrace.Worker(client, queue, handle, slots=int(slots), lease_duration=10, until_empty=True,
                                 worker_id="python", on_settled=note)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        signal.signal(signal.SIGINT, lambda *_: worker.stop())
        worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
