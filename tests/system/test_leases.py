"""Time: leases that end, long polls, clients that vanish. Durations are short, and every wait is for a condition."""

import threading
import time

import grpc
import pytest

import millrace
from harness import wait_until

SHORT = 0.3


def lease_one(client, queue, **options):
    options.setdefault("wait", 20)
    tasks = client.lease(queue, **options)
    assert len(tasks) == 1
    return tasks[0]


def test_an_expired_lease_is_handed_out_again_and_the_late_token_is_refused(client, queue):
    task_id = client.enqueue(queue, b"x")
    first = lease_one(client, queue, lease_duration=SHORT)
    begin = time.monotonic()
    second = lease_one(client, queue, lease_duration=60)
    assert time.monotonic() - begin < 10
    assert (second.task_id, second.attempt) == (task_id, 2)
    assert second.lease_token != first.lease_token
    for call in (client.complete, client.fail, client.extend, client.release):
        with pytest.raises(millrace.LeaseLost):
            call(first)
    # The late calls did no harm to the new lease.
    client.complete(second)
    assert client.describe(queue).counts == millrace.QueueCounts(1, 1, 0, 0, 0, 0)


def test_a_lease_never_ends_early(client, queue):
    client.enqueue(queue, b"x")
    begin = time.monotonic()
    lease_one(client, queue, lease_duration=1.0)
    lease_one(client, queue, lease_duration=60)
    assert time.monotonic() - begin >= 0.999


def test_the_last_attempt_that_expires_is_dead(client, queue):
    client.enqueue(queue, b"x", max_attempts=1)
    task = lease_one(client, queue, lease_duration=SHORT)
    wait_until(lambda: client.describe(queue).counts.dead == 1, "the task is dead")
    with pytest.raises(millrace.LeaseLost):
        client.complete(task)
    assert client.lease(queue, wait=0) == []


def test_an_extended_lease_lasts(client, queue):
    client.enqueue(queue, b"x")
    task = lease_one(client, queue, lease_duration=SHORT)
    begin = time.monotonic()
    while time.monotonic() - begin < 3 * SHORT:
        client.extend(task, SHORT)
        assert client.lease(queue, wait=0) == []
    client.complete(task)


def test_an_extension_may_shorten(client, queue):
    client.enqueue(queue, b"x")
    task = lease_one(client, queue, lease_duration=3600)
    client.extend(task, SHORT)
    assert lease_one(client, queue).attempt == 2


def test_a_waiting_poll_gets_a_new_task_at_once(client, queue):
    client.enqueue(queue, b"first")
    client.complete(lease_one(client, queue))
    for i in range(20):
        poll = client.start_lease(queue, wait=50)
        wait_until(lambda: client.describe(queue).pollers == 1, "the poll waits")
        begin = time.monotonic()
        client.enqueue(queue, b"%d" % i)
        task = poll.result()[0]
        assert time.monotonic() - begin < 2.0
        assert task.data == b"%d" % i
        client.complete(task)


def test_waiting_polls_share_a_batch(client, queue):
    polls = [client.start_lease(queue, wait=50) for _ in range(10)]
    wait_until(lambda: _pollers(client, queue) == 10, "ten polls wait")
    client.enqueue_many(queue, [b"%d" % i for i in range(10)])
    assert sorted(int(poll.result()[0].data) for poll in polls) == list(range(10))
    assert client.describe(queue).counts.leased == 10


def _pollers(client, queue):
    try:
        return client.describe(queue).pollers
    except millrace.QueueNotFound:
        return 0


def test_an_empty_poll_ends_ok_at_its_wait_time(client, queue):
    begin = time.monotonic()
    assert client.lease(queue, wait=0.5) == []
    assert 0.45 <= time.monotonic() - begin < 5


def test_an_empty_poll_ends_ok_before_the_deadline(client, queue):
    for deadline in (0.5, 1.0, 2.0):
        begin = time.monotonic()
        # No DEADLINE_EXCEEDED, though the wait asked for is much longer.
        assert client.lease(queue, wait=30, timeout=deadline) == []
        assert deadline * 0.4 <= time.monotonic() - begin < deadline


def test_a_poll_that_was_cancelled_takes_no_task(client, queue):
    for _ in range(10):
        poll = client.start_lease(queue, wait=50)
        wait_until(lambda: _pollers(client, queue) == 1, "the poll waits")
        poll.cancel()
        with pytest.raises(millrace.Cancelled):
            poll.result()
        wait_until(lambda: client.describe(queue).pollers == 0, "the poll is gone")
    client.enqueue(queue, b"x")
    task = lease_one(client, queue, wait=5)
    assert task.attempt == 1
    client.complete(task)


def test_a_client_that_vanishes_gives_its_task_back(shared, client, queue):
    task_id = client.enqueue(queue, b"x")
    with shared.client() as doomed:
        assert doomed.lease(queue, lease_duration=SHORT, wait=0)[0].task_id == task_id
    again = lease_one(client, queue)
    assert (again.task_id, again.attempt) == (task_id, 2)


def test_polls_of_a_client_that_vanishes_are_gone(shared, client, queue):
    doomed = shared.client()
    polls = [doomed.start_lease(queue, wait=50) for _ in range(5)]
    wait_until(lambda: _pollers(client, queue) == 5, "the polls wait")
    doomed.close()
    for poll in polls:
        with pytest.raises(millrace.Cancelled):
            poll.result()
    wait_until(lambda: client.describe(queue).pollers == 0, "the polls are gone")
    client.enqueue(queue, b"x")
    assert lease_one(client, queue, wait=5).attempt == 1


def test_many_callers_each_task_once(client, queue):
    count = 2000
    client.enqueue_many(queue, [b"%d" % i for i in range(count // 2)])
    client.enqueue_many(queue, [b"%d" % i for i in range(count // 2, count)])
    done, lock = [], threading.Lock()

    def work():
        while tasks := client.lease(queue, 7, wait=0):
            assert client.complete_many(queue, [t.lease_token for t in tasks]) == [None] * len(tasks)
            with lock:
                done.extend(int(t.data) for t in tasks)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(count))
    assert client.describe(queue).counts == millrace.QueueCounts(count, count, 0, 0, 0, 0)


def test_an_unknown_deadline_is_served_too(shared, queue):
    """A call without any deadline ends by its wait time."""
    from millrace.v1 import queue_pb2, queue_pb2_grpc

    with grpc.insecure_channel(shared.address) as channel:
        request = queue_pb2.LeaseRequest(queue=queue)
        request.wait_time.nanos = 200_000_000
        assert len(queue_pb2_grpc.QueueServiceStub(channel).Lease(request).tasks) == 0
