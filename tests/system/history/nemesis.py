"""What goes wrong in a run, and when: a plan that a seed gives whole, before anything runs."""

from __future__ import annotations

import random
import signal
import threading
import time
from dataclasses import dataclass
from typing import Callable

from disk_faults import Disk
from harness import Server

from .proxy import Mode, Proxy
from .records import Death, History


@dataclass(frozen=True)
class Step:
    """After `wait` seconds of peace, `what`, for `length` seconds."""

    wait: float
    what: str
    length: float

    def __str__(self) -> str:
        return f"+{self.wait:.1f}s {self.what}" + (f" {self.length:.1f}s" if self.length else "")


# Weights of the faults; "disk ..." only where the disk can be made to fail.
_FAULTS = {"kill": 30, "stop cleanly": 6, "freeze": 12, "cut": 14, "lose replies": 14, "silence": 6}
_DISK_FAULTS = {"disk full": 5, "disk full, torn write": 4, "disk write errors": 4, "disk sync errors": 6,
                "disk loses unsynced": 6, "disk slow": 4, "disk read-only": 4}


def make_plan(seed: int, seconds: float, *, disk: bool) -> list[Step]:
    rng = random.Random(f"plan {seed}")
    weights = {**_FAULTS, **(_DISK_FAULTS if disk else {})}
    plan: list[Step] = []
    spent = 0.0
    while True:
        what = rng.choices(list(weights), list(weights.values()))[0]
        step = Step(0.3 + rng.random() * 1.7, what, 0.0 if what in ("kill", "stop cleanly", "cut") else
                    0.3 + rng.random() * 1.2)
        # A kill and its start take a moment too.
        spent += step.wait + (step.length or 0.4)
        if spent > seconds and plan:
            return plan
        plan.append(step)


class Nemesis:
    """Carries a plan out, and notes when the server died."""

    def __init__(self, server: Server, proxy: Proxy, history: History, disk: Disk | None = None):
        self._server = server
        self._proxy = proxy
        self._history = history
        self._disk = disk
        self._ended = threading.Event()

    def run(self, plan: list[Step], tell: Callable[[str], None] = lambda _: None) -> None:
        for step in plan:
            self._ended.wait(step.wait)
            tell(str(step))
            self._do(step)

    def _do(self, step: Step) -> None:
        if step.what == "kill":
            self._die(self._server.kill, clean=False)
        elif step.what == "stop cleanly":
            self._die(self._server.terminate, clean=True)
        elif step.what == "freeze":
            self._server.send(signal.SIGSTOP)
            self._ended.wait(step.length)
            self._server.send(signal.SIGCONT)
        elif step.what == "cut":
            self._proxy.cut()
        elif step.what in ("lose replies", "silence"):
            self._proxy.mode = Mode.DROP_REPLIES if step.what == "lose replies" else Mode.SILENT
            self._ended.wait(step.length)
            self._proxy.mode = Mode.PASS
            # What was lost is noticed now, not when calls time out.
            self._proxy.cut()
        else:
            assert self._disk is not None
            with self._disk.fault(step.what):
                self._ended.wait(step.length)

    def _die(self, how: Callable[[], object], *, clean: bool) -> None:
        begin = time.monotonic()
        how()
        self._history.deaths.append(Death(begin, time.monotonic(), clean))
        self._server.start()
