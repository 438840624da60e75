"""Fixtures of the tests on a real Temporal cluster. scripts/conformance builds what they need and runs them."""

from __future__ import annotations

import os

import pytest

import cluster


def pytest_generate_tests(metafunc):
    """A test that takes `engine` runs once for each matching service that is asked for."""
    if "engine" in metafunc.fixturenames:
        asked = os.environ.get("MILLRACE_CONFORMANCE_ENGINES", "all")
        metafunc.parametrize("engine", ["own", "millrace"] if asked == "all" else [asked])


@pytest.fixture
def world():
    """A database and addresses; nothing else runs yet."""
    if "MILLRACE_CONFORMANCE_TOOLS" not in os.environ:
        pytest.exit("MILLRACE_CONFORMANCE_TOOLS is not set: run scripts/conformance", returncode=2)
    world = cluster.World(cluster.tools_folder())
    yield world
    world.close()
