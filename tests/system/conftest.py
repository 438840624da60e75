"""Fixtures of the system tests: a real server, real ports, a folder that goes away."""

from __future__ import annotations

import itertools
import pathlib

import pytest

import harness

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def binary() -> pathlib.Path:
    return harness.find_binary()


@pytest.fixture
def make_server(binary, tmp_path):
    """Makes servers, not started; flags as for `millrace server`."""
    servers: list[harness.Server] = []

    def make(*flags: str, name: str = "", **options) -> harness.Server:
        folder = tmp_path / (name or f"server{len(servers)}")
        server = harness.Server(folder, *flags, binary=binary, **options)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def server(make_server) -> harness.Server:
    """A server of the test's own, to be killed at will. Leases may be short."""
    return make_server("--limits-lease-min", "100ms").start()


@pytest.fixture(scope="module")
def shared(binary, tmp_path_factory):
    """One server for all tests of a file that do it no harm; it must still be up afterwards."""
    server = harness.Server(tmp_path_factory.mktemp("shared"), "--limits-lease-min", "100ms", binary=binary).start()
    first_pid = server.pid
    yield server
    assert server.running and server.pid == first_pid, f"the server went down:\n{server.log_text()[-4000:]}"
    server.close()


@pytest.fixture
def queue() -> str:
    """A queue name that no other test uses."""
    return f"queue-{next(_numbers)}"


@pytest.fixture
def client(shared):
    with shared.client() as client:
        yield client


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the end of its servers' logs."""
    report = (yield).get_result()
    if report.when != "call" or not report.failed:
        return
    for name in ("server", "shared"):
        value = item.funcargs.get(name)
        if isinstance(value, harness.Server):
            report.sections.append((f"log of {name}", value.log_text()[-4000:]))
