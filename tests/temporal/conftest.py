"""Fixtures of the tests on a real Temporal cluster. scripts/conformance builds what they need and runs them."""

from __future__ import annotations

import os

import pytest

import cluster


def _engines() -> list[str]:
    return os.environ.get("MILLRACE_CONFORMANCE_ENGINES", "own,millrace").split(",")


def pytest_generate_tests(metafunc):
    """A test that takes `engine` runs once for each matching service that is asked for."""
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", _engines())


@pytest.fixture
def world():
    """A database and addresses; nothing else runs yet."""
    if "MILLRACE_CONFORMANCE_TOOLS" not in os.environ:
        pytest.exit("MILLRACE_CONFORMANCE_TOOLS is not set: run scripts/conformance", returncode=2)
    world = cluster.World(cluster.tools_folder())
    yield world
    world.close()
