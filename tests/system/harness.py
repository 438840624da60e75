"""A real server process for tests and the demonstration: start, stop, kill, look at it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import IO, Any, Callable, Iterator

import millrace

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Generous: sanitizer builds on two busy cores.
PATIENCE = 60.0


def find_binary() -> pathlib.Path:
    """$MILLRACE_BIN, or the newest build in build/release or build/dev."""
    named = os.environ.get("MILLRACE_BIN")
    if named:
        path = pathlib.Path(named).resolve()
        if not os.access(path, os.X_OK):
            raise FileNotFoundError(f"MILLRACE_BIN={named} is not an executable file")
        return path
    found = [
        path
        for preset in ("release", "dev")
        for path in (ROOT / "build" / preset).rglob("millrace")
        if path.is_file() and os.access(path, os.X_OK)
    ]
    if not found:
        raise FileNotFoundError("no millrace binary: run scripts/build, or set MILLRACE_BIN")
    return max(found, key=lambda path: path.stat().st_mtime)


def wait_until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Asks again and again until `condition()` is true, and returns its value; fails after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {patience:.0f} s: {what}")
        time.sleep(0.005)


def clean_environment() -> dict[str, str]:
    """This process's environment without settings for a server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_")}


class StartError(AssertionError):
    """The server ended before it was ready."""

    def __init__(self, exit_code: int, output: str):
        super().__init__(f"the server ended with exit code {exit_code} before it was ready:\n{output[-4000:]}")
        self.exit_code = exit_code
        self.output = output


class Server:
    """One data folder and the server processes that own it, one after the other.

    The first start takes free ports; later ones ask for the same ports, so that clients find it again.
    """

    def __init__(self, folder: pathlib.Path, *flags: str, binary: pathlib.Path | None = None,
                 data_dir: pathlib.Path | None = None, environment: dict[str, str] | None = None):
        self.folder = folder
        self.environment = environment or {}
        self.data_dir = data_dir or folder / "data"
        self.log_file = folder / "server.log"
        self.flags = list(flags)
        self.starts = 0
        self.address = "127.0.0.1:0"
        self.admin = "127.0.0.1:0"
        self._binary = binary or find_binary()
        self._ready_file = folder / "ready.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._logger = threading.Thread()

    @property
    def binary(self) -> pathlib.Path:
        return self._binary

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was never started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        return [
            str(self._binary), "server", "--listen", self.address, "--admin-listen", self.admin,
            "--data-dir", str(self.data_dir), "--ready-file", str(self._ready_file), *self.flags
        ]

    def start(self) -> Server:
        """Starts a process and waits until it serves. Raises StartError when it ends instead."""
        assert not self.running, "it runs already"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._start_once()
                return self
            except StartError as error:
                # Between two runs another process may hold the port for a moment, for a connection of its own.
                if self.starts == 0 or "in use" not in error.output.lower() or "data" in error.output.lower() \
                        or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _start_once(self) -> None:
        self._ready_file.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**clean_environment(), **self.environment}, restore_signals=False)
        # restore_signals: a write beyond limit_files is an error then, not a signal that ends the process. (No
        # preexec_fn: it would fork with gRPC's threads around.)
        # Through a pipe, as limits on files must not reach the log.
        self._logger = threading.Thread(target=self._copy_log, args=(self._process.stdout,), daemon=True)
        self._logger.start()
        ready = wait_until(lambda: self._read_ready(begin), "the server is ready")
        assert ready["pid"] == self.pid
        self.address, self.admin = ready["grpc"], ready["admin"]
        self.starts += 1

    def _copy_log(self, source: IO[bytes]) -> None:
        with source, open(self.log_file, "ab", buffering=0) as log:
            while data := os.read(source.fileno(), 65536):
                log.write(data)

    def _read_ready(self, log_begin: int) -> dict[str, Any] | None:
        assert self._process is not None
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads(self._ready_file.read_text())
        if self._process.poll() is not None:
            self._logger.join()
            raise StartError(self._process.returncode, self.log_text()[log_begin:])
        return None

    def limit_files(self, limit: int) -> None:
        """From now on no file of the running server may grow beyond `limit` bytes; -1 = no limit."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def kill(self) -> None:
        """SIGKILL: no last words."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._logger.join()

    def terminate(self, patience: float = PATIENCE) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self.wait(patience)

    def wait(self, patience: float = PATIENCE) -> int:
        assert self._process is not None
        try:
            code = self._process.wait(patience)
            self._logger.join()
            return code
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server still runs after {patience:.0f} s:\n{self.log_text()[-4000:]}") from None

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def restart(self) -> None:
        """A kill and a start: what a crash and a supervisor do."""
        self.kill()
        self.start()

    def close(self) -> None:
        if self.running:
            self.kill()

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def client(self, **options: Any) -> millrace.Client:
        return millrace.Client(self.address, **options)

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of a GET on the admin port."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def cli(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs `millrace ARGUMENTS` against this server."""
        options.setdefault("timeout", PATIENCE)
        return subprocess.run(
            [str(self._binary), *arguments, "--address", self.address], capture_output=True, text=True,
            env=clean_environment(), **options)


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """A started server that is gone afterwards."""
    try:
        yield server.start()
    finally:
        server.close()
