"""A backlog that one matching service wrote drains through the other, both ways, on the same database."""

from __future__ import annotations

import pytest

WORKFLOWS = 100


@pytest.fixture
def backlog(world):
    def make(name: str) -> tuple[str, ...]:
        """Starts workflows while no worker runs; answers what finishes them."""
        arguments = ("--workflows", str(WORKFLOWS), "--prefix", name)
        world.load("--phase", "start", *arguments).finish()
        return ("--phase", "finish", "--kill-worker=false", *arguments)

    return make


def test_a_backlog_changes_hands_and_comes_back(world, backlog, engine):
    """With the server module's own service on both sides when that is the engine."""
    first, second = world.engine("own"), world.engine("millrace-postgres" if engine == "millrace" else engine)
    first.start()
    world.start_services()
    from_the_first = backlog("first")
    first.terminate()
    assert world.stored_tasks() >= WORKFLOWS
    second.start()
    from_the_second = backlog("second")
    world.load(*from_the_first).finish()
    second.terminate()
    assert world.stored_tasks() >= WORKFLOWS
    first.start()
    world.load(*from_the_second).finish()
