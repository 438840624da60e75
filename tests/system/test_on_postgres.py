"""The queue service with its tasks in PostgreSQL: what the other files ask of any store, and what is special here."""

import collections
import signal
import subprocess
import threading

import pytest

import harness
import millrace
import postgres
from harness import wait_until
from millrace import Outcome

# The same tests, with this file's fixtures.
from test_crash import *  # noqa: F401,F403
from test_kill_audit import test_nothing_is_lost_or_finished_twice  # noqa: F401
from test_leases import *  # noqa: F401,F403
from test_life_cycle import *  # noqa: F401,F403
from test_server_process import (  # noqa: F401
    test_a_graceful_stop_ends_waiting_polls_and_keeps_everything, test_calls_in_flight_when_the_stop_begins_are_answered)


@pytest.fixture(scope="module")
def database():
    server = postgres.Postgres()
    yield server
    server.close()


def flags_for(database, name):
    return ["--store-kind=postgres", f"--postgres-url={database.url(name)}", "--limits-lease-min=100ms"]


def migrate(binary, database, name, *more):
    return subprocess.run([str(binary), "store", "migrate", "--postgres-url", database.url(name), *more],
                          capture_output=True, text=True, env=harness.clean_environment(), timeout=harness.PATIENCE)


@pytest.fixture
def prepared(binary, database):
    """Name of a database with the schema in it."""
    name = database.new_database()
    done = migrate(binary, database, name)
    assert done.returncode == 0, done.stderr
    return name


@pytest.fixture
def server(binary, database, prepared, tmp_path):
    server = harness.Server(tmp_path / "server", *flags_for(database, prepared), binary=binary).start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared(binary, database, tmp_path_factory):
    name = database.new_database()
    assert migrate(binary, database, name).returncode == 0
    server = harness.Server(tmp_path_factory.mktemp("shared"), *flags_for(database, name), binary=binary).start()
    first_pid = server.pid
    yield server
    assert server.running and server.pid == first_pid, f"the server went down:\n{server.log_text()[-4000:]}"
    server.close()


# ---- The schema ------------------------------------------------------------------------------------------------------


def test_migrate_tells_then_does_then_has_nothing_to_do(binary, database):
    name = database.new_database()
    dry = migrate(binary, database, name, "--dry-run")
    assert dry.returncode == 0 and "CREATE TABLE" in dry.stdout, dry
    assert database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name) == "0"
    done = migrate(binary, database, name)
    assert done.returncode == 0 and "version 2" in done.stdout, done
    again = migrate(binary, database, name)
    assert again.returncode == 0 and "nothing to do" in again.stdout, again


def test_tables_that_are_there_are_kept_and_checked(binary, database):
    name = database.new_database()
    database.sql("CREATE TABLE tasks_v2 (range_hash bigint NOT NULL, task_queue_id bytea NOT NULL, pass bigint NOT NULL,"
                 " task_id bigint NOT NULL, data bytea NOT NULL, data_encoding varchar(16) NOT NULL,"
                 " PRIMARY KEY (range_hash, task_queue_id, pass, task_id));"
                 " INSERT INTO tasks_v2 VALUES (1, 'x', 1, 1, 'd', 'Proto3')", name)
    assert migrate(binary, database, name).returncode == 0
    assert database.sql("SELECT count(*) FROM tasks_v2", name) == "1"
    database.sql("DROP TABLE task_queues; CREATE TABLE task_queues (range_hash integer PRIMARY KEY)", name)
    refused = migrate(binary, database, name)
    assert refused.returncode == 1 and "task_queues" in refused.stderr, refused


def test_a_server_on_an_unprepared_database_says_what_to_run(binary, database, tmp_path):
    server = harness.Server(tmp_path / "server", *flags_for(database, database.new_database()), binary=binary)
    with pytest.raises(harness.StartError) as caught:
        server.start()
    assert "millrace store migrate" in caught.value.output


def test_a_password_in_the_connection_string_is_not_shown(binary):
    shown = subprocess.run([str(binary), "config", "show", "--postgres-url", "postgresql://me:secret@db/x"],
                           capture_output=True, text=True, env=harness.clean_environment(), timeout=harness.PATIENCE)
    assert shown.returncode == 0 and "secret" not in shown.stdout and "me:***@db" in shown.stdout


# ---- The database goes away ------------------------------------------------------------------------------------------


class Work:
    """Producers and workers that go on through everything; then the books are checked."""

    def __init__(self, servers, tasks):
        self._servers = servers
        self._payloads = [b"record %d" % i for i in range(tasks)]
        self._lock = threading.Lock()
        self.acknowledged: dict[str, bytes] = {}
        self.outcomes = collections.defaultdict(collections.Counter)
        self._clients = [server.client() for server in servers]
        self._workers = []
        self._threads = []

    def start(self):
        for number, client in enumerate(self._clients):
            worker = millrace.Worker(client, "q", lambda job: None, slots=8, lease_duration=2, worker_id=f"w{number}",
                                     on_settled=self._settled)
            self._workers.append(worker)
            mine = self._payloads[number::len(self._clients)]
            for target, arguments in ((worker.run, ()), (self._produce, (client, mine))):
                thread = threading.Thread(target=target, args=arguments, daemon=True)
                thread.start()
                self._threads.append(thread)
        return self

    def _settled(self, job, outcome):
        with self._lock:
            self.outcomes[job.task_id][outcome] += 1

    def _produce(self, client, payloads):
        for start in range(0, len(payloads), 20):
            todo = payloads[start:start + 20]
            while todo:
                try:
                    results = client.enqueue_many("q", todo)
                except millrace.MillraceError:
                    continue
                with self._lock:
                    self.acknowledged.update((r.task_id, p) for r, p in zip(results, todo) if r.ok)
                todo = [p for r, p in zip(results, todo) if not r.ok]

    def completed(self):
        with self._lock:
            return sum(1 for c in self.outcomes.values() if c[Outcome.COMPLETED])

    def finish(self):
        watcher = self._servers[0].client()

        def finished():
            with self._lock:
                if set(self.acknowledged.values()) != set(self._payloads):
                    return False
            try:
                counts = watcher.describe("q").counts
            except millrace.MillraceError:
                return False
            return counts.waiting == 0 and counts.leased == 0

        wait_until(finished, "everything is enqueued and done", 180)
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        counts = watcher.describe("q").counts
        assert counts.conserved and counts.dead == 0 and counts.done == counts.accepted, str(counts)
        with self._lock:
            settled = {i for i, c in self.outcomes.items() if c[Outcome.COMPLETED] or c[Outcome.UNCERTAIN]}
            twice = [i for i, c in self.outcomes.items() if c[Outcome.COMPLETED] > 1]
            assert set(self.acknowledged) <= settled
            assert twice == []
        for client in [*self._clients, watcher]:
            client.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_the_database_restarts_under_load(binary, tmp_path, number):
    database = postgres.Postgres()
    try:
        name = database.new_database()
        assert migrate(binary, database, name).returncode == 0
        server = harness.Server(tmp_path / "server", *flags_for(database, name), binary=binary).start()
        work = Work([server, server], 3_000).start()
        for target in (300, 1_200):
            wait_until(lambda: work.completed() >= target, f"{target} tasks are done")
            database.stop(number)
            wait_until(lambda: server.http("/readyz")[0] != 200, "the server says that it cannot serve")
            database.start()
            wait_until(lambda: server.http("/readyz")[0] == 200, "the server serves again")
        work.finish()
        assert server.terminate() == 0
        server.close()
    finally:
        database.close()


# ---- Two servers -----------------------------------------------------------------------------------------------------


def test_a_second_server_takes_over_and_the_first_one_stands_back(binary, database, prepared, tmp_path):
    first, second = (harness.Server(tmp_path / name, *flags_for(database, prepared), binary=binary).start()
                     for name in ("first", "second"))
    try:
        with first.client() as one, second.client() as two:
            ids = [one.enqueue("q", b"%d" % i) for i in range(10)]
            [job] = one.lease("q", max_tasks=1, wait=5)
            # The other one finds everything, and that one is leased.
            assert two.describe("q").counts.accepted == 10
            taken = two.lease("q", max_tasks=10, wait=5)
            assert {j.task_id for j in taken} | {job.task_id} == set(ids)
            for j in taken:
                two.complete(j)
            # The first one finds out with its next write, and takes the queue back.
            wait_until(lambda: _completes(one, job), "the first lease is completed")
            counts = one.describe("q").counts
            assert (counts.accepted, counts.done, counts.waiting, counts.leased) == (10, 10, 0, 0), str(counts)
    finally:
        first.close()
        second.close()


def _completes(client, job):
    try:
        client.complete(job)
        return True
    except millrace.MillraceError as error:
        # A lease that is not known any more: it was completed by a call whose answer was lost.
        return not error.surely_not_done


def test_two_servers_that_fight_for_a_queue_lose_nothing(binary, database, prepared, tmp_path):
    servers = [harness.Server(tmp_path / name, *flags_for(database, prepared), binary=binary).start()
               for name in ("first", "second")]
    try:
        work = Work(servers, 400).start()
        wait_until(lambda: work.completed() >= 100, "a hundred are done", 120)
        servers[1].restart()
        work.finish()
    finally:
        for server in servers:
            server.close()
