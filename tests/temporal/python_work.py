"""Ordinary work written for Temporal's Python SDK."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, CancelledError, is_cancelled_exception

_QUICK = RetryPolicy(initial_interval=timedelta(milliseconds=50), maximum_interval=timedelta(seconds=1))
_OPTIONS = {"start_to_close_timeout": timedelta(seconds=15), "retry_policy": _QUICK}


@activity.defn
async def add(a: int, b: int) -> int:
    return a + b


@activity.defn
async def fail_twice() -> int:
    attempt = activity.info().attempt
    if attempt < 3:
        raise ApplicationError(f"attempt {attempt} is to fail")
    return attempt


@activity.defn
async def resume() -> str:
    """Goes silent after one heartbeat; the next attempt finds it."""
    if activity.info().heartbeat_details:
        return activity.info().heartbeat_details[0] + " and half"
    activity.heartbeat("half")
    await asyncio.sleep(60)
    raise ApplicationError("no heartbeat timeout came")


@activity.defn
async def until_cancelled() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.1)


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, n: int) -> int:
        for _ in range(2):
            n = await workflow.execute_activity(add, args=[n, 1], **_OPTIONS)
        both = await asyncio.gather(*(workflow.execute_activity(add, args=[n, i], **_OPTIONS) for i in (10, 20)))
        await asyncio.sleep(0.2)
        return sum(both)


@workflow.defn
class Signals:
    def __init__(self):
        self._amounts: list[int] = []

    @workflow.signal
    def amount(self, amount: int) -> None:
        self._amounts.append(amount)

    @workflow.run
    async def run(self, n: int) -> int:
        for i in range(3):
            await workflow.wait_condition(lambda i=i: len(self._amounts) > i)
            n = await workflow.execute_local_activity(add, args=[n, self._amounts[i]],
                                                      start_to_close_timeout=timedelta(seconds=5))
        return n


@workflow.defn
class Children:
    @workflow.run
    async def run(self, n: int) -> int:
        name = workflow.info().workflow_id
        return sum(await asyncio.gather(
            *(workflow.execute_child_workflow(Chain.run, n + i, id=f"{name}/child{i}") for i in range(2))))


@workflow.defn
class Retries:
    @workflow.run
    async def run(self, n: int) -> int:
        return n + await workflow.execute_activity(fail_twice, **_OPTIONS)


@workflow.defn
class Heartbeats:
    @workflow.run
    async def run(self, n: int) -> str:
        done = await workflow.execute_activity(resume, start_to_close_timeout=timedelta(minutes=1),
                                               heartbeat_timeout=timedelta(seconds=1), retry_policy=_QUICK)
        return f"{n}: {done}"


@workflow.defn
class Cancelled:
    @workflow.run
    async def run(self, n: int) -> int:
        try:
            await workflow.execute_activity(
                until_cancelled, start_to_close_timeout=timedelta(minutes=2), heartbeat_timeout=timedelta(seconds=5),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED)
        except (CancelledError, Exception) as error:
            if not is_cancelled_exception(error):
                raise
        return await workflow.execute_activity(add, args=[n, 1000], **_OPTIONS)


@workflow.defn
class Continued:
    @workflow.run
    async def run(self, n: int, runs: int) -> int:
        n = await workflow.execute_activity(add, args=[n, 1], **_OPTIONS)
        if runs > 1:
            workflow.continue_as_new(args=[n, runs - 1])
        return n


def chain(n: int) -> int:
    return 2 * (n + 2) + 30


ACTIVITIES = [add, fail_twice, resume, until_cancelled]
# Workflow, its further arguments, and what it answers for n.
KINDS = [
    (Chain, [], chain),
    (Signals, [], lambda n: n + 6),
    (Children, [], lambda n: chain(n) + chain(n + 1)),
    (Retries, [], lambda n: n + 3),
    (Heartbeats, [], lambda n: f"{n}: half and half"),
    (Cancelled, [], lambda n: n + 1000),
    (Continued, [3], lambda n: n + 3),
]
