"""The Python worker on a real server."""

import collections
import subprocess
import sys
import textwrap
import threading

import pytest

import millrace
from harness import wait_until
from millrace import Outcome


class Run:
    """A worker in a thread."""

    def __init__(self, client, queue, handler, **options):
        self.settled = []
        self.worker = millrace.Worker(client, queue, handler,
                                      on_settled=lambda job, outcome: self.settled.append((job.task_id, outcome)),
                                      **options)
        self._thread = threading.Thread(target=self.worker.run, daemon=True)
        self._thread.start()

    def stop(self, grace=None):
        self.worker.stop(grace)
        return self.join()

    def join(self, patience=60):
        self._thread.join(patience)
        assert not self._thread.is_alive(), "the worker did not end"
        return self.worker.stats


@pytest.mark.parametrize("slots", [1, 8])
def test_until_empty_does_everything_once(client, queue, slots):
    ids = [r.task_id for r in client.enqueue_many(queue, [b"%d" % i for i in range(500)])]
    seen = collections.Counter()
    run = Run(client, queue, lambda job: seen.update([job.payload]), slots=slots, until_empty=True)
    stats = run.join()
    assert stats.completed == 500
    assert seen == {b"%d" % i: 1 for i in range(500)}
    assert sorted(run.settled) == sorted((i, Outcome.COMPLETED) for i in ids)
    assert client.describe(queue).counts == millrace.QueueCounts(500, 500, 0, 0, 0, 0)


def test_a_worker_by_address(shared, client, queue):
    client.enqueue(queue, b"x")
    assert millrace.Worker(shared.address, queue, lambda job: None, until_empty=True).run().completed == 1


def test_until_empty_on_a_queue_never_used(client, queue):
    assert Run(client, queue, print, until_empty=True).join().completed == 0


def test_payloads_are_decoded_and_handlers_may_fail(client, queue):
    def handler(job):
        what = job.payload["do"]
        if what == "fail once" and job.attempt == 1:
            raise RuntimeError("not yet")
        if what == "give up":
            raise millrace.PermanentError("never")

    for what in ("work", "fail once", "give up"):
        client.enqueue(queue, millrace.JSON.encode({"do": what}))
    client.enqueue(queue, b"{not json", max_attempts=2)
    run = Run(client, queue, handler, codec=millrace.JSON, until_empty=True)
    stats = run.join()
    assert stats.outcomes == {Outcome.COMPLETED: 2, Outcome.FAILED: 4}
    dead = sorted(t.error_message for t in client.peek(queue, millrace.TaskState.DEAD))
    assert len(dead) == 2
    assert dead[0].startswith("JSONDecodeError: ") and dead[1] == "PermanentError: never"


def test_leases_are_extended_while_the_handler_runs(client, queue):
    client.enqueue(queue, b"x")
    began, finish = threading.Event(), threading.Event()

    def handler(job):
        began.set()
        assert finish.wait(60)
        assert not job.cancelled

    run = Run(client, queue, handler, lease_duration=1.0, until_empty=True)
    assert began.wait(60)
    task = next(client.peek(queue, millrace.TaskState.LEASED))
    # The time left goes up again and again: so it was extended.
    for _ in range(3):
        left = task.lease_time_left

        def extended():
            nonlocal left
            now = next(client.peek(queue, millrace.TaskState.LEASED)).lease_time_left
            before, left = left, now
            return now > before

        wait_until(extended, "the lease was extended")
    finish.set()
    assert run.join().outcomes == {Outcome.COMPLETED: 1}
    assert run.settled == [(task.task_id, Outcome.COMPLETED)]


def test_a_lost_lease_cancels_the_handler(client, queue):
    task_id = client.enqueue(queue, b"x")
    jobs = []

    def handler(job):
        jobs.append(job)
        assert job.wait_cancelled(60)

    run = Run(client, queue, handler, lease_duration=1.0)
    wait_until(lambda: jobs, "the handler runs")
    # Somebody else ends the task behind the worker's back.
    assert client.complete_many(queue, [jobs[0].lease_token]) == [None]
    wait_until(lambda: run.settled, "the worker noticed")
    assert run.settled == [(task_id, Outcome.LEASE_LOST)]
    assert jobs[0].cancelled
    assert run.stop().outcomes == {Outcome.LEASE_LOST: 1}


def test_a_graceful_stop_finishes_what_runs(client, queue):
    client.enqueue_many(queue, [b"%d" % i for i in range(20)])
    running, finish = threading.Semaphore(0), threading.Event()

    def handler(job):
        running.release()
        assert finish.wait(60)

    run = Run(client, queue, handler, slots=3)
    for _ in range(3):
        assert running.acquire(timeout=60)
    run.worker.stop()
    wait_until(lambda: client.describe(queue).pollers == 0, "no more polls")
    finish.set()
    assert run.join().outcomes[Outcome.COMPLETED] == 3
    counts = client.describe(queue).counts
    assert (counts.done, counts.leased) == (3, 0)
    # Nobody was charged for the stop.
    assert {t.attempt for t in client.lease(queue, 100, wait=0)} == {1}


def test_a_stop_without_grace_releases_and_charges_no_attempt(client, queue):
    client.enqueue_many(queue, [b"%d" % i for i in range(4)])
    running = threading.Semaphore(0)

    def handler(job):
        running.release()
        assert job.wait_cancelled(60)
        job.raise_if_cancelled()

    run = Run(client, queue, handler, slots=4)
    for _ in range(4):
        assert running.acquire(timeout=60)
    assert run.stop(grace=0).outcomes == {Outcome.RELEASED: 4}
    tasks = client.lease(queue, 10, wait=5)
    assert len(tasks) == 4 and {t.attempt for t in tasks} == {1}


def test_a_handler_that_does_not_listen_cannot_hold_up_a_stop(client, queue):
    client.enqueue(queue, b"x")
    began, finish = threading.Event(), threading.Event()

    def handler(job):
        began.set()
        finish.wait(60)

    run = Run(client, queue, handler)
    assert began.wait(60)
    assert run.stop(grace=0).outcomes == {Outcome.RELEASED: 1}
    finish.set()
    assert client.lease(queue, wait=5)[0].attempt == 1


def test_an_idle_worker_stops_at_once_and_takes_nothing_more(client, queue):
    run = Run(client, queue, print)
    wait_until(lambda: _pollers(client, queue) == 1, "the worker polls")
    run.stop()
    client.enqueue(queue, b"x")
    task = client.lease(queue, wait=5)[0]
    assert task.attempt == 1


def _pollers(client, queue):
    try:
        return client.describe(queue).pollers
    except millrace.QueueNotFound:
        return 0


def test_a_wrong_queue_name_is_raised(client):
    with pytest.raises(millrace.InvalidArgument):
        millrace.Worker(client, "no such name", print).run()


def test_a_worker_goes_on_after_a_kill(server):
    """Handlers that finish while the server is down are settled when it is back."""
    with server.client() as client:
        ids = [r.task_id for r in client.enqueue_many("q", [b"a", b"b"])]
        running, finish = threading.Semaphore(0), threading.Event()

        def handler(job):
            running.release()
            assert finish.wait(60)

        run = Run(client, "q", handler, slots=2, lease_duration=3600)
        for _ in range(2):
            assert running.acquire(timeout=60)
        client.enqueue("other", b"a write that carries the leases along")
        server.kill()
        finish.set()
        server.start()
        wait_until(lambda: len(run.settled) >= 2, "both are settled")
        wait_until(lambda: client.describe("q").counts.done == 2, "both are done")
        client.enqueue("q", b"c")
        wait_until(lambda: client.describe("q").counts.done == 3, "the worker polls again")
        run.stop()
        assert {task_id for task_id, outcome in run.settled if outcome is Outcome.COMPLETED} >= set(ids)
        assert client.describe("q").counts.conserved


def test_the_command(shared, client, queue, tmp_path):
    client.enqueue_many(queue, [millrace.JSON.encode({"n": i}) for i in range(50)])
    (tmp_path / "handlers.py").write_text(textwrap.dedent("""
        def handle(job):
            if job.payload["n"] == 7 and job.attempt == 1:
                raise ValueError("seven")
    """))
    done = subprocess.run(
        [sys.executable, "-m", "millrace.work", queue, "handlers:handle", "--address", shared.address, "--codec", "json",
         "--until-empty", "--slots", "3"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "50 completed, 1 failed" in done.stderr
    assert client.describe(queue).counts.done == 50


def test_the_command_stops_gracefully(shared, client, queue, tmp_path):
    client.enqueue(queue, b"x")
    (tmp_path / "handlers.py").write_text(textwrap.dedent("""
        import pathlib

        def handle(job):
            pathlib.Path("began").touch()
            job.wait_cancelled(60)
    """))
    process = subprocess.Popen(
        [sys.executable, "-m", "millrace.work", queue, "handlers:handle", "--address", shared.address, "--grace", "0"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: (tmp_path / "began").exists(), "the handler runs")
        process.terminate()
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    # The handler returned when it was told to stop: its word that it is done counts, or it was released first.
    assert "1 completed" in err or "1 released" in err
    assert client.describe(queue).counts.leased == 0
