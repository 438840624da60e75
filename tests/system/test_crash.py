"""What survives SIGKILL."""

import threading

import pytest

import millrace
from harness import wait_until


def test_acknowledged_tasks_survive(server):
    with server.client() as client:
        ids = [r.task_id for r in client.enqueue_many("q", [b"%d" % i for i in range(500)])]
    server.restart()
    with server.client() as client:
        assert client.describe("q").counts.waiting == 500
        tasks = []
        while batch := client.lease("q", 1000, wait=0):
            tasks += batch
        assert [t.task_id for t in tasks] == ids
        assert [t.data for t in tasks] == [b"%d" % i for i in range(500)]
        assert all(t.attempt == 1 for t in tasks)


def test_leases_survive(server):
    with server.client() as client:
        client.enqueue_many("q", [b"held", b"free"])
        held = client.lease("q", lease_duration=3600, wait=0, worker_id="me")[0]
        # Leases are remembered with the next write; that write is this one.
        client.enqueue("q", b"later")
    server.restart()
    with server.client() as client:
        free = client.lease("q", 10, wait=0)
        assert [t.data for t in free] == [b"free", b"later"]
        leased = {t.task_id: t for t in client.peek("q", millrace.TaskState.LEASED)}
        assert leased[held.task_id].worker_id == "me"
        assert 3000 < leased[held.task_id].lease_time_left <= 3600
        client.extend(held, 1800)
        client.complete(held)
        with pytest.raises(millrace.LeaseLost):
            client.complete(held)
        client.complete_many("q", [t.lease_token for t in free])
        assert client.describe("q").counts == millrace.QueueCounts(3, 3, 0, 0, 0, 0)


def test_a_lease_without_a_later_write_is_remembered_soon(server):
    """No other write comes by: the lease is stored by itself within a moment."""
    with server.client() as client:
        client.enqueue("q", b"x")
        held = client.lease("q", lease_duration=3600, wait=0)[0]
        other = client.enqueue("other", b"y")
        # A later acknowledged write of another queue follows the lease in the store's log.
        wait_until(lambda: client.enqueue("other", b"y") != other, "another write")
    server.restart()
    with server.client() as client:
        tasks = client.lease("q", wait=0)
        if tasks:
            # Not remembered in that instant: then it was handed out again, and the old token is dead.
            with pytest.raises(millrace.LeaseLost):
                client.complete(held)
        else:
            client.complete(held)
        counts = client.describe("q").counts
        assert counts.conserved and counts.accepted == 1


def test_a_remembered_lease_still_ends(server):
    with server.client() as client:
        task_id = client.enqueue("q", b"x")
        held = client.lease("q", lease_duration=1, wait=0)[0]
        client.enqueue("other", b"y")
        client.enqueue("q2", b"y")
    server.restart()
    with server.client() as client:
        again = client.lease("q", wait=30)[0]
        assert again.task_id == task_id
        with pytest.raises(millrace.LeaseLost):
            client.complete(held)
        client.complete(again)


@pytest.mark.parametrize("kills", [1, 3])
def test_completed_tasks_never_come_back_though_an_older_one_is_leased(server, kills):
    with server.client() as client:
        ids = [r.task_id for r in client.enqueue_many("q", [b"%d" % i for i in range(100)])]
        oldest = client.lease("q", lease_duration=3600, wait=0)[0]
        assert oldest.task_id == ids[0]
        rest = client.lease("q", 60, wait=0)
        assert client.complete_many("q", [t.lease_token for t in rest]) == [None] * 60
    for _ in range(kills):
        server.restart()
    with server.client() as client:
        counts = client.describe("q").counts
        assert (counts.accepted, counts.done, counts.waiting + counts.leased) == (100, 60, 40)
        seen = []
        while batch := client.lease("q", 1000, wait=0):
            seen += batch
        # The oldest may be among them, if its lease was not remembered; a completed one may not.
        assert {t.task_id for t in seen} - {oldest.task_id} == set(ids[61:])
        for task in client.lease("q", 1000, wait=0):
            raise AssertionError(f"{task.task_id} came twice")
        assert client.complete_many("q", [t.lease_token for t in seen]) == [None] * len(seen)


def test_failures_and_releases_survive(server):
    with server.client() as client:
        client.enqueue_many("q", [b"fails", b"dies", b"released"])
        fails, dies, released = client.lease("q", 3, wait=0)
        client.fail(fails, "again")
        client.fail(dies, "for good", permanent=True)
        client.release(released)
    server.restart()
    with server.client() as client:
        tasks = {t.data: t for t in client.lease("q", 10, wait=0)}
        assert {data: t.attempt for data, t in tasks.items()} == {b"fails": 2, b"released": 1}
        assert tasks[b"fails"].task_id == fails.task_id
        dead = list(client.peek("q", millrace.TaskState.DEAD))
        assert [(t.task_id, t.error_message) for t in dead] == [(dies.task_id, "for good")]
        counts = client.describe("q").counts
        assert (counts.accepted, counts.done, counts.dead) == (3, 0, 1) and counts.conserved


def test_many_queues_survive(server):
    names = [f"q{i:03}" for i in range(200)]
    with server.client() as client:
        for name in names:
            client.enqueue(name, name.encode())
        for name in names[::2]:
            client.complete(client.lease(name, wait=0)[0])
    server.restart()
    with server.client() as client:
        infos = {q.name: q for q in client.list_queues(page_size=7)}
        assert sorted(infos) == names
        for i, name in enumerate(names):
            expected = (1, 0) if i % 2 == 0 else (0, 1)
            assert (infos[name].counts.done, infos[name].counts.waiting) == expected
            assert infos[name].counts.conserved
            tasks = client.lease(name, wait=0)
            assert [t.data for t in tasks] == ([] if i % 2 == 0 else [name.encode()])


def test_ids_and_tokens_are_never_used_twice(server):
    ids, tokens = set(), set()
    for _ in range(4):
        with server.client() as client:
            for _ in range(20):
                ids.add(client.enqueue("q", b"x"))
            for task in client.lease("q", 1000, lease_duration=3600, wait=0):
                tokens.add(task.lease_token)
                client.release(task)
        server.restart()
    assert len(ids) == 80
    # Every round leased all there was: 20, 40, 60 and 80 tasks, each lease under a token of its own.
    assert len(tokens) == 20 + 40 + 60 + 80


def test_killed_amid_enqueues_every_acknowledged_task_is_there(server):
    """Producers write while the server dies; whatever was acknowledged is there, the rest at most once."""
    acknowledged: set[str] = set()
    sent: set[bytes] = set()
    lock = threading.Lock()
    enough = threading.Event()

    def produce(number):
        with server.client() as client:
            for i in range(100_000):
                payload = b"%d-%d" % (number, i)
                with lock:
                    sent.add(payload)
                try:
                    task_id = client.enqueue("q", payload)
                except millrace.MillraceError as error:
                    assert isinstance(error, (millrace.Unavailable, millrace.Cancelled)), error
                    return
                with lock:
                    acknowledged.add(task_id)
                    if len(acknowledged) > 300:
                        enough.set()

    producers = [threading.Thread(target=produce, args=(n,)) for n in range(6)]
    for producer in producers:
        producer.start()
    assert enough.wait(60)
    server.kill()
    for producer in producers:
        producer.join()
    server.start()
    with server.client() as client:
        stored = list(client.peek("q", page_size=1000))
        assert acknowledged <= {t.task_id for t in stored}
        payloads = [t.data for t in stored]
        assert len(set(payloads)) == len(payloads) and set(payloads) <= sent
        counts = client.describe("q").counts
        assert counts.accepted == counts.waiting == len(stored)
