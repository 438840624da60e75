"""A PostgreSQL server of the tests' own: a cluster in a temporary folder, reached by a Unix socket in it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import wait_until


def programs() -> pathlib.Path:
    """The folder of the newest installed server's programs."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "the package postgresql is not installed"
    return found[-1].parent


class Postgres:
    """Ends with this process. As root it runs as another user, since PostgreSQL refuses to run as root."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace_pg_"))
        self._owner: pwd.struct_passwd | None = None
        # A program of its own changes the user, rather than Popen's arguments: those make Python fork, and gRPC's handler of
        # forks was seen to crash in the child once the process has many threads and lost connections.
        self._as_owner: list[str] = []
        if os.geteuid() == 0:
            try:
                self._owner = pwd.getpwnam("postgres")
            except KeyError:
                self._owner = pwd.getpwnam("nobody")
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
            self._as_owner = ["setpriv", f"--reuid={self._owner.pw_uid}", f"--regid={self._owner.pw_gid}", "--clear-groups"]
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._tcp: list[str] = []
        self.port = 5432  # Names the Unix socket's file; nobody listens on it otherwise.
        subprocess.run([*self._as_owner, programs() / "initdb", "-D", self.folder / "data", "-U", "millrace", "-A", "trust", "-E", "UTF8",
                        "--locale=C", "--no-sync"], check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                       env={"PATH": os.environ["PATH"]})
        self.start()

    def start(self) -> None:
        """Recovery from an immediate stop may take long on a busy machine. A predecessor's memory may still be there: then it is
        tried again."""
        for attempt in range(5):
            self._launch()
            try:
                wait_until(self._answers_or_ended, "PostgreSQL answers", patience=180)
            except AssertionError as error:
                raise AssertionError(self._log()) from error
            if self._process is not None and self._process.poll() is None:
                return
            time.sleep(1 << attempt)
        assert self._process is not None
        raise AssertionError(f"PostgreSQL does not start, exit code {self._process.returncode}: {self._log()}")

    def _log(self) -> str:
        path = self.folder / "log"
        return f"its log: {path.read_text(errors='replace')[-4000:]}" if path.exists() else "no log"

    def _launch(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._as_owner, "setpriv", "--pdeathsig", "QUIT", programs() / "postgres", "-D", self.folder / "data", "-k", self.folder,
                 "-p", str(self.port), "-c", "shared_buffers=64MB", "-c", "max_wal_size=512MB", *(self._tcp or ["-c", "listen_addresses="])],
                cwd=self.folder, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})

    def _answers_or_ended(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            return True
        ready = subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder, "-p", str(self.port)], check=False)
        return ready.returncode == 0

    def listen(self, certificate: pathlib.Path | None, key: pathlib.Path | None, access: str) -> None:
        """Restarts it so that it also listens on a free TCP port, with TLS where there is a certificate. `access`: lines of
        pg_hba.conf for connections by TCP."""
        self.stop()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._tcp = ["-c", "listen_addresses=127.0.0.1"]
        (self.folder / "data" / "pg_hba.conf").write_text("local all all trust\n" + access)
        if certificate is not None and key is not None:
            self.use_certificate(certificate, key)
            self._tcp += ["-c", "ssl=on", "-c", "ssl_cert_file=server.pem", "-c", "ssl_key_file=server.key"]
        self.start()

    def use_certificate(self, certificate: pathlib.Path, key: pathlib.Path) -> None:
        """Counts from the next start."""
        for source, name in ((certificate, "server.pem"), (key, "server.key")):
            path = self.folder / "data" / name
            path.write_bytes(source.read_bytes())
            path.chmod(0o600)
            if self._owner is not None:
                os.chown(path, self._owner.pw_uid, self._owner.pw_gid)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: fast; SIGQUIT: immediate, as if the machine had stopped."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def sql(self, text: str, database: str = "postgres") -> str:
        done = subprocess.run([programs() / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", str(self.port), "-U",
                               "millrace", "-d", database, "-c", text], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def new_database(self) -> str:
        """An empty database's name."""
        self._databases += 1
        name = f"test{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def url(self, database: str) -> str:
        return f"host={self.folder} port={self.port} user=millrace dbname={database}"

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
