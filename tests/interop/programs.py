"""Processes of the interoperability tests: our server, and other people's programs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time
import zipfile
from typing import NamedTuple

# For one program that should take a few seconds at most.
PATIENCE = 120.0


class OwnServer:
    """Our test server on a free port; it ends when its input does."""

    def __init__(self, binary: pathlib.Path, *arguments: str):
        self._process = subprocess.Popen(
            [binary, *(arguments or ["127.0.0.1:0"])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        words = self._process.stdout.readline().split()
        assert words[:1] == ["listening"], words
        self.address = words[1]
        self.host, port = self.address.rsplit(":", 1)
        self.port = int(port)
        self.exit_code = None

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._process.stdin.close()
        try:
            self.exit_code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.exit_code = self._process.wait()
        self._process.stdout.close()


class OtherServer:
    """Somebody else's server, told to take any free port; which one it got is asked of the system."""

    def __init__(self, command: list, env: dict | None = None, cwd: pathlib.Path | None = None):
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=cwd
        )
        self.host = "127.0.0.1"
        self.port = self._wait_for_port()
        self.address = f"{self.host}:{self.port}"

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"it did not come up: {self._process.args}"
            ports = listening_ports(self._process.pid)
            if ports:
                return min(ports)
            time.sleep(0.02)
        raise AssertionError(f"it does not listen: {self._process.args}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._process.kill()
        self._process.wait()


def listening_ports(pid: int) -> set[int]:
    """TCP ports on which the process listens, in the order of the kernel's tables."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


class Certificates(NamedTuple):
    """PEM files that all the programs here know, and a name that the server's certificate is for."""

    ca: pathlib.Path
    cert: pathlib.Path
    key: pathlib.Path
    name: str = "foo.test.google.fr"


class Tools:
    """Other people's programs, as scripts/interop has built them."""

    def __init__(self, folder: pathlib.Path):
        self._bin = folder / "bin"
        self._archive = folder / "java.jsa"
        self._classpath = (folder / "java.classpath").read_text().strip()

    def certificates(self, folder: pathlib.Path) -> Certificates:
        """Those that gRPC's own tests use, which Java's programs cannot do without."""
        [jar] = [path for path in self._classpath.split(":") if "/grpc-testing-" in path]
        with zipfile.ZipFile(jar) as archive:
            files = [archive.extract(f"certs/{name}", folder) for name in ("ca.pem", "server1.pem", "server1.key")]
        return Certificates(*map(pathlib.Path, files))

    def go(self, name: str, *arguments: str) -> list[str]:
        return [str(self._bin / name), *arguments]

    def java(self, main: str, *arguments: str) -> list[str]:
        # A short life: no time for the optimizing compiler. The first client to end leaves an archive of its classes,
        # with which the others start in half the time.
        archive = "SharedArchiveFile" if self._archive.exists() or "Server" in main else "ArchiveClassesAtExit"
        return [
            "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", f"-XX:{archive}={self._archive}",
            "-cp", self._classpath, f"io.grpc.testing.integration.{main}", *arguments,
        ]  # fmt: skip


def run(command: list[str], env: dict | None = None) -> str:
    """Runs it to its end, and fails with its output unless it succeeded."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE, env=env,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout
