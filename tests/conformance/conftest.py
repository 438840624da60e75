"""Temporal's own persistence layer and ours on one database. scripts/conformance-rows builds both sides and runs this."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "system"))

import harness  # noqa: E402
import postgres  # noqa: E402
import rows  # noqa: E402


def _file(variable: str) -> pathlib.Path:
    if variable not in os.environ:
        pytest.exit(f"{variable} is not set: run scripts/conformance-rows", returncode=2)
    return pathlib.Path(os.environ[variable])


@pytest.fixture(scope="session")
def temporal_program() -> pathlib.Path:
    return _file("MILLRACE_TEMPORAL_ROWS")


@pytest.fixture(scope="session")
def our_program() -> pathlib.Path:
    return _file("MILLRACE_ROWS_TOOL")


@pytest.fixture(scope="session")
def server():
    server = postgres.Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def migrate(server):
    """Runs `millrace store migrate` on a database."""

    def run(name: str) -> None:
        done = subprocess.run([harness.find_binary(), "store", "migrate", "--postgres-url", server.url(name)],
                              capture_output=True, text=True, env=harness.clean_environment(), timeout=harness.PATIENCE)
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture(scope="session")
def schema(server, temporal_program):
    """Makes Temporal's tables in a database, with Temporal's own tool."""
    return lambda name: rows.make_tables(temporal_program, server, name)


@pytest.fixture(scope="session")
def database(server, schema, migrate) -> str:
    name = server.new_database()
    schema(name)
    migrate(name)
    return name


@pytest.fixture(scope="session")
def temporal(temporal_program, server, database):
    with rows.Temporal(temporal_program, server, database) as temporal:
        yield temporal


@pytest.fixture(scope="session")
def classic(our_program, server, database):
    with rows.Millrace(our_program, server.url(database), "classic") as tool:
        yield tool


@pytest.fixture(scope="session")
def fair(our_program, server, database):
    with rows.Millrace(our_program, server.url(database), "fair") as tool:
        yield tool
