"""Several server processes on one PostgreSQL database."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import subprocess
from typing import Iterator

import harness
import millrace
import postgres
from harness import wait_until

HEARTBEAT = 0.3
# Long enough for a busy machine not to lose a node that is alive.
EXPIRY = 4.0


class Nodes:
    """`count` nodes, named n0, n1, ... Not started."""

    def __init__(self, binary: pathlib.Path, database: postgres.Postgres, folder: pathlib.Path, count: int, *flags: str):
        self.binary = binary
        self.database = database
        self.name = database.new_database()
        self.folder = folder
        self.flags = flags
        done = subprocess.run([str(binary), "store", "migrate", "--postgres-url", database.url(self.name)],
                              capture_output=True, text=True, env=harness.clean_environment(), timeout=harness.PATIENCE)
        assert done.returncode == 0, done.stderr
        self.servers: list[harness.Server] = []
        for _ in range(count):
            self.add()

    def add(self, *flags: str, **options) -> harness.Server:
        number = len(self.servers)
        server = harness.Server(
            self.folder / f"n{number}", "--store-kind=postgres", f"--postgres-url={self.database.url(self.name)}", "--limits-lease-min=100ms",
            f"--node-id=n{number}", f"--node-heartbeat={HEARTBEAT * 1000:.0f}ms", f"--node-expiry={EXPIRY * 1000:.0f}ms",
            *self.flags, *flags, binary=self.binary, **options)
        self.servers.append(server)
        return server

    def __getitem__(self, number: int) -> harness.Server:
        return self.servers[number]

    def start(self) -> Nodes:
        for server in self.servers:
            server.start()
        self.wait_settled()
        return self

    def close(self) -> None:
        for server in self.servers:
            with contextlib.suppress(ProcessLookupError):
                server.close()

    def wait_settled(self, servers: list[harness.Server] | None = None) -> None:
        """All of `servers` (default: the running ones) see exactly each other, and agree."""
        servers = servers or [server for server in self.servers if server.running]
        wanted = sorted(server.address for server in servers)
        wait_until(lambda: all(settled(server, wanted) for server in servers), f"{len(servers)} nodes agree")

    def owner(self, queue: str) -> harness.Server:
        """The node that has the queue in memory."""
        def look():
            found = [server for server in self.servers if server.running and queue in loaded_queues(server)]
            return found[0] if len(found) == 1 else None

        return wait_until(look, f"one node has {queue} in memory")


def pause(server: harness.Server) -> None:
    """SIGSTOP. When this returns no thread of it runs any more."""
    server.send(signal.SIGSTOP)
    tasks = pathlib.Path(f"/proc/{server.pid}/task")
    wait_until(lambda: all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in tasks.glob("*/stat")),
               "every thread has stopped")


def node_list(server: harness.Server) -> list[dict]:
    done = server.cli("node", "list", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def settled(server: harness.Server, addresses: list[str]) -> bool:
    done = server.cli("node", "list")
    if done.returncode != 0 or "queues are moving" in done.stdout:
        return False
    nodes = node_list(server)
    return sorted(n["address"] for n in nodes) == addresses and all(n["state"] == "serving" for n in nodes)


def loaded_queues(server: harness.Server) -> set[str]:
    status, text = server.http("/metrics")
    assert status == 200
    return {line.split('queue="')[1].split('"')[0] for line in text.splitlines()
            if line.startswith("millrace_queue_tasks{")}


def metric(server: harness.Server, name: str) -> float:
    status, text = server.http("/metrics")
    assert status == 200
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith((name + " ", name + "{")))


@contextlib.contextmanager
def clients_of(servers) -> Iterator[list[millrace.Client]]:
    clients = [server.client() for server in servers]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()
