"""A PostgreSQL server of the tests' own: a cluster in a temporary folder, reached by a Unix socket in it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from harness import wait_until

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def programs() -> pathlib.Path:
    """The folder of the newest installed server's programs."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "the package postgresql is not installed"
    return found[-1].parent


class Postgres:
    """Ends with this process. As root it runs as another user, since PostgreSQL refuses to run as root."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace_pg_"))
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:
            try:
                other = pwd.getpwnam("postgres")
            except KeyError:
                other = pwd.getpwnam("nobody")
            os.chown(self.folder, other.pw_uid, other.pw_gid)
            self._user = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        subprocess.run([programs() / "initdb", "-D", self.folder / "data", "-U", "millrace", "-A", "trust", "-E", "UTF8",
                        "--locale=C", "--no-sync"], check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                       env={"PATH": os.environ["PATH"]}, **self._user)
        self.start()

    def start(self) -> None:
        # prctl by way of the C library: a fork with other threads around must not run Python code that takes locks.
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [programs() / "postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses=",
                 "-c", "shared_buffers=64MB", "-c", "max_wal_size=512MB"],
                cwd=self.folder, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]},
                preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT), **self._user)
        wait_until(self._answers, "PostgreSQL answers")

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self.folder / "log").read_text()[-4000:]
        ready = subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder], check=False)
        return ready.returncode == 0

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: fast; SIGQUIT: immediate, as if the machine had stopped."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def sql(self, text: str, database: str = "postgres") -> str:
        done = subprocess.run([programs() / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "millrace",
                               "-d", database, "-c", text], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def new_database(self) -> str:
        """An empty database's name."""
        self._databases += 1
        name = f"test{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def url(self, database: str) -> str:
        return f"host={self.folder} user=millrace dbname={database}"

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
