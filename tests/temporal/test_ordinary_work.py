"""Workflows of every ordinary kind run on a real cluster and end right, whatever happens to workers and matching."""

from __future__ import annotations

from cluster import WORKFLOWS


def test_every_kind_of_workflow_ends_right(world, engine):
    """A worker is killed in the middle."""
    world.engine(engine).start()
    world.start_services()
    world.load("--workflows", str(WORKFLOWS)).finish()


def test_no_task_is_lost_on_its_way(world, engine):
    """Nothing is killed, so nothing may need a time-out to come back."""
    world.engine(engine).start()
    world.start_services()
    world.load("--workflows", str(WORKFLOWS // 2), "--concurrency", "10", "--kill-worker=false", "--timeouts-max", "0").finish()


def test_matching_is_killed_twice(world, engine):
    matching = world.engine(engine)
    matching.start()
    world.start_services()
    load = world.load("--workflows", str(WORKFLOWS))
    for done in (WORKFLOWS // 4, WORKFLOWS // 2):
        load.wait_done(done)
        matching.kill()
        matching.start()
    load.finish()
