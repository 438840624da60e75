"""What a task can go through, by the Python client."""

import time

import pytest

import millrace
from harness import wait_until
from millrace import TaskState


def only(tasks):
    assert len(tasks) == 1
    return tasks[0]


def counts(client, queue):
    info = client.describe(queue)
    assert info.counts.conserved, str(info.counts)
    return info.counts


def test_enqueue_lease_complete(client, queue):
    before = time.time()
    task_id = client.enqueue(queue, b"payload \x00\xff", headers={"trace": "abc", "ü": "ö"})
    assert task_id
    task = only(client.lease(queue, wait=0, worker_id="tester"))
    assert (task.task_id, task.data, task.headers) == (task_id, b"payload \x00\xff", {"trace": "abc", "ü": "ö"})
    assert task.attempt == 1
    assert before - 1 <= task.enqueue_time <= time.time() + 1
    assert 0 < task.lease_duration <= 30
    assert counts(client, queue).leased == 1
    client.complete(task)
    after = counts(client, queue)
    assert (after.accepted, after.done, after.waiting, after.leased) == (1, 1, 0, 0)
    assert client.lease(queue, wait=0) == []


def test_an_empty_payload_is_a_payload(client, queue):
    client.enqueue(queue, b"")
    task = only(client.lease(queue, wait=0))
    assert task.data == b""
    client.complete(task)


def test_order_is_kept_within_and_across_calls(client, queue):
    ids = [r.task_id for r in client.enqueue_many(queue, [b"%d" % i for i in range(300)])]
    ids += [client.enqueue(queue, b"%d" % i) for i in range(300, 310)]
    assert len(set(ids)) == 310
    seen = []
    while tasks := client.lease(queue, 64, wait=0):
        seen += tasks
        assert client.complete_many(queue, [t.lease_token for t in tasks]) == [None] * len(tasks)
    assert [t.task_id for t in seen] == ids
    assert [t.data for t in seen] == [b"%d" % i for i in range(310)]


def test_a_failed_task_comes_back_at_the_end_with_the_next_attempt(client, queue):
    first, second = client.enqueue(queue, b"1"), client.enqueue(queue, b"2")
    task = only(client.lease(queue, wait=0))
    assert task.task_id == first
    client.fail(task, "no luck")
    after = client.lease(queue, 2, wait=5)
    if len(after) == 1:
        after += client.lease(queue, 1, wait=5)
    assert [(t.task_id, t.attempt) for t in after] == [(second, 1), (first, 2)]
    assert after[1].lease_token != task.lease_token
    client.complete_many(queue, [t.lease_token for t in after])
    assert counts(client, queue).done == 2


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_max_attempts_counts_the_first(client, queue, max_attempts):
    task_id = client.enqueue(queue, b"poison", max_attempts=max_attempts)
    for attempt in range(1, max_attempts + 1):
        task = only(client.lease(queue, wait=5))
        assert (task.attempt, task.max_attempts) == (attempt, max_attempts)
        client.fail(task, f"failure {attempt}")
    assert client.lease(queue, wait=0) == []
    assert counts(client, queue).dead == 1
    dead = only(list(client.peek(queue, TaskState.DEAD)))
    assert (dead.task_id, dead.state, dead.data) == (task_id, TaskState.DEAD, b"poison")
    assert dead.error_message == f"failure {max_attempts}"
    assert dead.attempt == max_attempts


def test_a_permanent_failure_is_dead_at_once(client, queue):
    client.enqueue(queue, b"x", max_attempts=10)
    client.fail(only(client.lease(queue, wait=0)), "never", permanent=True)
    assert counts(client, queue).dead == 1
    assert client.lease(queue, wait=0) == []


def test_a_release_charges_no_attempt(client, queue):
    client.enqueue(queue, b"x", max_attempts=1)
    for _ in range(5):
        task = only(client.lease(queue, wait=5))
        assert task.attempt == 1
        client.release(task)
    client.complete(only(client.lease(queue, wait=5)))
    assert counts(client, queue).done == 1


def test_peek_changes_nothing(client, queue):
    client.enqueue_many(queue, [millrace.NewTask(b"%d" % i, {"n": str(i)}) for i in range(25)])
    held = client.lease(queue, 2, wait=0, worker_id="me", lease_duration=60)
    for page_size in (1, 7, 100):
        tasks = list(client.peek(queue, page_size=page_size))
        assert sorted(int(t.data) for t in tasks) == list(range(25))
        by_state = {s: [t for t in tasks if t.state is s] for s in TaskState}
        assert {t.task_id for t in by_state[TaskState.LEASED]} == {t.task_id for t in held}
        assert all(t.worker_id == "me" and 0 < t.lease_time_left <= 60 for t in by_state[TaskState.LEASED])
        assert all(t.attempt == 0 for t in by_state[TaskState.WAITING])
    assert len(list(client.peek(queue, TaskState.WAITING))) == 23
    assert len(list(client.peek(queue, TaskState.LEASED))) == 2
    basic = list(client.peek(queue, payloads=False))
    assert len(basic) == 25 and all(t.data == b"" and t.headers == {} for t in basic)
    assert counts(client, queue) == millrace.QueueCounts(25, 0, 23, 2, 0, 0)
    client.complete_many(queue, [t.lease_token for t in held])
    assert only(client.lease(queue, wait=0)).attempt == 1


def test_describe_and_list(client):
    names = [f"listed/{c}" for c in "abcdefg"]
    for name in names:
        client.enqueue(name, b"x")
    assert [q.name for q in client.list_queues("listed/", page_size=2)] == names
    assert list(client.list_queues("listed/zzz")) == []
    info = client.describe("listed/a")
    assert (info.name, info.loaded, info.counts.waiting) == ("listed/a", True, 1)
    assert info.oldest_age is not None and 0 <= info.oldest_age < 3600
    client.complete(only(client.lease("listed/a", wait=0)))
    assert client.describe("listed/a").oldest_age is None


def test_a_task_that_nobody_wants_in_time_is_dropped(client, queue):
    client.enqueue(queue, b"late", time_to_live=0.05)
    client.enqueue(queue, b"kept")
    begin = time.monotonic()
    wait_until(lambda: time.monotonic() > begin + 0.1, "its time is over")
    task = only(client.lease(queue, wait=0))
    assert task.data == b"kept"
    client.complete(task)
    wait_until(lambda: client.describe(queue).counts.dropped == 1, "it is dropped")
    now = counts(client, queue)
    assert (now.accepted, now.done, now.dropped, now.waiting) == (2, 1, 1, 0)
