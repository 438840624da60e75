"""Processes of the interoperability tests: our server, and other people's programs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time

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


class Tools:
    """Other people's programs, as scripts/interop has built them."""

    def __init__(self, folder: pathlib.Path):
        self._bin = folder / "bin"
        self._classpath = (folder / "java.classpath").read_text().strip()

    def go(self, name: str, *arguments: str) -> list[str]:
        return [str(self._bin / name), *arguments]

    def java(self, main: str, *arguments: str) -> list[str]:
        # A short life: no time for the optimizing compiler.
        return [
            "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", self._classpath,
            f"io.grpc.testing.integration.{main}", *arguments,
        ]  # fmt: skip


def run(command: list[str], env: dict | None = None) -> str:
    """Runs it to its end, and fails with its output unless it succeeded."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE, env=env,
    )  # fmt: skip
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout
