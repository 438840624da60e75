"""A real Temporal cluster whose matching service is a process of its own: the server module's or Millrace."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

import harness  # noqa: E402

# Generous: everything starts on two busy cores.
START_PATIENCE = 120.0
# As many workflows as a quick run needs; more for a long one.
WORKFLOWS = int(os.environ.get("MILLRACE_CONFORMANCE_WORKFLOWS", "200"))
STUCK_AFTER = 300 + WORKFLOWS
LOAD_PATIENCE = STUCK_AFTER + 60.0


def free_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


class Program:
    """A process of conformance/cmd/cluster."""

    def __init__(self, tools: pathlib.Path, folder: pathlib.Path, *arguments: str):
        self.folder = folder
        self.log_file = folder / "output.log"
        self.ready_file = folder / "ready.json"
        self._command = [str(tools / "cluster"), "--folder", str(folder), "--ready-file", str(self.ready_file), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict:
        assert not self.running
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ready_file.unlink(missing_ok=True)
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=harness.clean_environment())
        return harness.wait_until(self._ready, "the cluster program is ready", START_PATIENCE)

    def _ready(self) -> dict | None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise harness.StartError(self._process.returncode, self.log_file.read_text(errors="replace"))
        return json.loads(self.ready_file.read_text()) if self.ready_file.exists() else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no last words."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self._process is not None
        if self.running:
            self._process.send_signal(number)
        return self._process.wait(START_PATIENCE)


class OwnMatching:
    """The server module's matching service."""

    def __init__(self, tools: pathlib.Path, folder: pathlib.Path, world: World):
        self._program = Program(
            tools, folder, "--services", "matching", "--matching", world.matching, "--frontend", world.frontend,
            "--history", world.history, "--postgres", world.postgres)

    @property
    def running(self) -> bool:
        return self._program.running

    def start(self) -> None:
        self._program.start()

    def kill(self) -> None:
        self._program.kill()

    def terminate(self) -> int:
        return self._program.terminate()


class Load:
    """Ordinary work in progress."""

    def __init__(self, command: list[str]):
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, env=harness.clean_environment())
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    def wait_done(self, workflows: int) -> None:
        """Waits until so many workflows are done; fails when the work ends before."""

        def reached() -> bool:
            done = [int(line.split()[1]) for line in list(self._lines) if line.startswith("done ")]
            if done and done[-1] >= workflows:
                return True
            assert self._process.poll() is None, f"the work ended early:\n{self.output()}"
            return False

        harness.wait_until(reached, f"{workflows} workflows are done", LOAD_PATIENCE)

    def finish(self) -> None:
        """Waits for the end and fails unless every workflow ended right."""
        try:
            code = self._process.wait(LOAD_PATIENCE)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"the work still runs:\n{self.output()}") from None
        print(self.output())
        assert code == 0, self.output()

    def output(self) -> str:
        self._reader.join(5)
        return "".join(self._lines)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(START_PATIENCE)


class World:
    """A database, the addresses of all services, and whatever of them runs."""

    def __init__(self, tools: pathlib.Path):
        self._tools = tools
        # Not in pytest's folder, which the database's own user may not walk through.
        self.folder = folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace_temporal_"))
        folder.chmod(0o755)
        self.frontend, self.history, self.matching = (free_address() for _ in range(3))
        self._database = Program(tools, folder / "database", "--services", "none")
        self.postgres = self._database.start()["postgres"]
        self._services: Program | None = None
        self._engines: list[OwnMatching | harness.Server] = []
        self._loads: list[Load] = []

    def start_services(self) -> None:
        """Frontend, history and worker. A matching service must run."""
        self._services = Program(
            self._tools, self.folder / "services", "--services", "frontend,history,worker", "--matching", self.matching,
            "--frontend", self.frontend, "--history", self.history, "--postgres", self.postgres)
        self._services.start()

    def engine(self, name: str):
        """A matching service at this world's address, not started: start(), kill() and terminate() it at will.

        own: the server module's. millrace: Millrace on RocksDB; millrace-postgres: on the cluster's own database.
        """
        folder = self.folder / f"{name}{len(self._engines)}"
        if name == "own":
            engine = OwnMatching(self._tools, folder, self)
        else:
            engine = harness.Server(folder, "--temporal-enabled=true", "--temporal-history-hosts", self.history,
                                    "--temporal-history-shards", "4", *(self._on_postgres() if name != "millrace" else []))
            engine.address = self.matching
            if name != "millrace":
                subprocess.run([str(engine.binary), "store", "migrate", *self._on_postgres()], check=True)
        self._engines.append(engine)
        return engine

    def _on_postgres(self) -> list[str]:
        return ["--store-kind", "postgres", "--postgres-url", self.postgres]

    def stored_tasks(self) -> int:
        """How many rows lie in Temporal's own table of tasks."""
        psql = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", self.postgres, "-c", "SELECT count(*) FROM tasks"]
        return int(subprocess.run(psql, check=True, capture_output=True, text=True).stdout)

    def load(self, *arguments: str) -> Load:
        """Starts conformance/cmd/load on this cluster."""
        load = Load([str(self._tools / "load"), "--frontend", self.frontend, "--within", f"{STUCK_AFTER}s", *arguments])
        self._loads.append(load)
        return load

    def close(self) -> None:
        for load in self._loads:
            load.stop()
        for program in (self._services, *self._engines, self._database):
            if program is not None and program.running:
                program.kill() if program is not self._database else program.terminate()
        shutil.rmtree(self.folder, ignore_errors=True)


def tools_folder() -> pathlib.Path:
    """Where scripts/conformance put the Go programs."""
    return pathlib.Path(os.environ["MILLRACE_CONFORMANCE_TOOLS"])
