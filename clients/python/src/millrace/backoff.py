"""How long to wait before another try."""

from __future__ import annotations

import random


class Backoff:
    """Growing waits with jitter, so that many workers do not return to a restarted server in step.

    Threads: one. Bounds: a wait is between half of the current step and the whole step, steps double from `first` to
    `longest` seconds; what the server asks for (`retry_after`) is never undercut, up to `longest` times four.
    """

    def __init__(self, first: float = 0.05, longest: float = 2.0, rng: random.Random | None = None):
        self._first = first
        self._longest = longest
        self._rng = rng or random.Random()
        self._step = first

    def next_wait(self, retry_after: float | None = None) -> float:
        """Seconds to wait now; the next call waits longer."""
        wait = self._step * self._rng.uniform(0.5, 1.0)
        self._step = min(self._step * 2, self._longest)
        if retry_after is not None:
            wait = max(wait, min(retry_after, self._longest * 4) * self._rng.uniform(1.0, 1.2))
        return wait

    def reset(self) -> None:
        """After a success."""
        self._step = self._first
