"""Other people's gRPC programs against ours. scripts/interop builds both sides and runs this."""

from __future__ import annotations

import os
import pathlib

import pytest

import programs


def _folder(variable: str) -> pathlib.Path:
    if variable not in os.environ:
        pytest.exit(f"{variable} is not set: run scripts/interop", returncode=2)
    return pathlib.Path(os.environ[variable])


@pytest.fixture(scope="session")
def build() -> pathlib.Path:
    """Where our own binaries are."""
    return _folder("MILLRACE_INTEROP_BUILD") / "tests" / "interop"


@pytest.fixture(scope="session")
def tools() -> programs.Tools:
    return programs.Tools(_folder("MILLRACE_INTEROP_TOOLS"))


@pytest.fixture(scope="module")
def server(build):
    """Our server for all tests of a file; it must live and end well."""
    with programs.OwnServer(build / "interop_server") as server:
        yield server
        assert server.running, "our server went down"
    assert server.exit_code == 0


@pytest.fixture(scope="session")
def certificates(tools, tmp_path_factory) -> programs.Certificates:
    return tools.certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_server(build, certificates):
    """Like `server`, with TLS only."""
    with programs.OwnServer(
        build / "interop_server", f"--cert={certificates.cert}", f"--key={certificates.key}", "127.0.0.1:0"
    ) as server:
        yield server
        assert server.running, "our server went down"
    assert server.exit_code == 0
