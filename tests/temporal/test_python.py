"""Workflows of Temporal's Python SDK run on the real cluster and end right."""

from __future__ import annotations

import asyncio

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

import python_work

_WORKFLOWS = 70
_STUCK_AFTER = 150.0


async def _started_activity(handle: WorkflowHandle) -> None:
    while True:
        pending = (await handle.describe()).raw_description.pending_activities
        if pending and pending[0].state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
            return
        await asyncio.sleep(0.1)


async def _one(client: Client, queue: str, n: int) -> str | None:
    """Runs the n-th workflow; answers what is wrong with its result."""
    kind, further, expected = python_work.KINDS[n % len(python_work.KINDS)]
    name = f"{queue}-{n}-{kind.__name__}"
    handle = await client.start_workflow(kind.run, args=[n, *further], id=name, task_queue=queue)
    if kind is python_work.Signals:
        for amount in (1, 2, 3):
            await handle.signal(python_work.Signals.amount, amount)
    if kind is python_work.Cancelled:
        await _started_activity(handle)
        await handle.cancel()
    result = await handle.result()
    return None if result == expected(n) else f"{name} answered {result!r} instead of {expected(n)!r}"


async def _run(frontend: str) -> list[str]:
    client = await Client.connect(frontend)
    workflows = [kind for kind, _, _ in python_work.KINDS]
    cached = Worker(client, task_queue="python-sticky", workflows=workflows, activities=python_work.ACTIVITIES)
    plain = Worker(client, task_queue="python-plain", workflows=workflows, activities=python_work.ACTIVITIES,
                   max_cached_workflows=0)
    async with cached, plain, asyncio.timeout(_STUCK_AFTER):
        queues = ("python-sticky", "python-plain")
        answers = await asyncio.gather(*(_one(client, queues[n // 7 % 2], n) for n in range(_WORKFLOWS)))
    return [answer for answer in answers if answer]


def test_workflows_of_the_python_sdk_end_right(world, engine):
    world.engine(engine).start()
    world.start_services()
    assert asyncio.run(_run(world.frontend)) == []
