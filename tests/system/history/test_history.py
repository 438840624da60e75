"""Histories of a real server under kills, frozen processes, lost replies and a failing disk break no rule.

One plan of faults is always the same, another is new each time; a failure names the command that repeats its plan, and
keeps what was recorded. Longer: scripts/history --seconds N.
"""

from __future__ import annotations

import random

import pytest

import harness

from .checker import check
from .records import Kind, Outcome
from .run import make_server, run, summary

SECONDS = 15
FIXED = 2


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["fixed", "fresh"])
def test_no_rule_is_broken(tmp_path, plan):
    seed = FIXED if plan == "fixed" else random.SystemRandom().randrange(1 << 32)
    server, disk = make_server(tmp_path, disk=True)
    with harness.running(server):
        history, surprises = run(server, seed, SECONDS, disk=disk)
    found = check(history)
    kept = tmp_path / "history.jsonl"
    if found or surprises:
        history.save(kept)
    assert not found and not surprises, (
        f"scripts/history --seconds {SECONDS} --seed {seed} (kept: {kept})\n"
        + "\n".join(str(violation) for violation in found) + "\n".join(surprises))
    # A run in which nothing happened would prove nothing.
    print(summary(history))
    done = sum(1 for call in history.calls if call.kind is Kind.COMPLETE
               for item in call.settled if item.outcome is Outcome.OK)
    refused = sum(1 for call in history.calls for item in call.settled if item.lost)
    assert done > 50 and refused > 5, summary(history)
