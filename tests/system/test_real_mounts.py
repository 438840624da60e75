"""File systems that are really full and really read-only, mounted for the test in a namespace of its own. (A mount with files
open for writing cannot be made read-only by hand; the file system that does so by itself after an error is played by
test_disk_faults.py.)"""

import subprocess

import pytest

import harness
import millrace
from test_disk_full import check_healed, check_while_full, put_until_refused

FULL_SIZE = "24m"


class Mounts:
    """A namespace of mounts, kept by a process that sleeps in it."""

    def __init__(self):
        self._keeper = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "echo ready && exec sleep infinity"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ready = self._keeper.stdout.readline().strip() == "ready" and self.run("mount", "-t", "tmpfs", "none", "/mnt") == ""

    def inside(self, *command):
        return ["nsenter", "--target", str(self._keeper.pid), "--user", "--mount", "--preserve-credentials", "--", *command]

    def run(self, *command):
        """What it said of a failure; '' when it worked."""
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=harness.PATIENCE)
        return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"

    def close(self):
        self._keeper.kill()
        self._keeper.wait()
        self._keeper.stdout.close()
        self._keeper.stderr.close()


class ServerInside(harness.Server):
    """A server that sees those mounts."""

    def __init__(self, mounts, *arguments, **options):
        super().__init__(*arguments, **options)
        self._mounts = mounts

    def command(self):
        return self._mounts.inside(*super().command())


@pytest.fixture
def mounts():
    made = Mounts()
    try:
        if not made.ready:
            pytest.skip("this machine lets us mount nothing")
        yield made
    finally:
        made.close()


def test_a_full_file_system(mounts, tmp_path, binary):
    data = tmp_path / "data"
    data.mkdir()
    assert mounts.run("mount", "-t", "tmpfs", "-o", f"size={FULL_SIZE}", "millrace", str(data)) == ""
    with harness.running(ServerInside(mounts, tmp_path, binary=binary, data_dir=data)) as server, server.client() as client:
        acknowledged = [client.enqueue("q", b"before") for _ in range(10)]
        more, error = put_until_refused(client, b"x" * 100_000)
        assert isinstance(error, millrace.Unavailable), error
        acknowledged += more
        assert len(more) * 100_000 < 24 << 20
        check_while_full(server, client)
        assert mounts.run("mount", "-o", "remount,size=200m", str(data)) == ""
        check_healed(server, client, acknowledged)


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_read_only_file_system(mounts, tmp_path, binary, end):
    data = tmp_path / "data"
    data.mkdir()
    server = ServerInside(mounts, tmp_path, binary=binary, data_dir=data)
    with harness.running(server), server.client() as client:
        acknowledged = {client.enqueue("q", b"x") for _ in range(10)}
        getattr(server, end)()
        assert mounts.run("mount", "--bind", str(data), str(data)) == ""
        before = contents(data)
        assert mounts.run("mount", "-o", "remount,bind,ro", str(data)) == ""
        with pytest.raises(harness.StartError) as refused:
            server.start()
        assert refused.value.exit_code == 1
        assert "read-only" in refused.value.output.lower(), refused.value.output
        assert contents(data) == before
        assert mounts.run("mount", "-o", "remount,bind,rw", str(data)) == ""
        server.start()
        assert {task.task_id for task in client.peek("q")} == acknowledged
        acknowledged.add(client.enqueue("q", b"again"))
        server.restart()
        assert {task.task_id for task in client.peek("q")} == acknowledged


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
