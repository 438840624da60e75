"""File systems that are really full and really read-only, mounted for the test in a namespace of its own, and one that turns
read-only under a running server. (The kernel refuses that by hand while files are open for writing; ext4 does it when it aborts,
as after an error of the disk.)"""

import os
import shutil
import subprocess
import threading

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


class LoopDisk:
    """An ext4 file system in a file, which needs root and a loop device."""

    def __init__(self, image, folder):
        self._image = image
        self.folder = folder
        folder.mkdir()
        with open(image, "wb") as file:
            file.truncate(128 << 20)
        self._mkfs = shutil.which("mkfs.ext4") or "/usr/sbin/mkfs.ext4"

    def make(self):
        """Why it cannot be had; '' when it is mounted."""
        if os.geteuid() != 0:
            return "not root"
        return self._run(self._mkfs, "-q", "-F", self._image) or self.mount()

    def mount(self):
        return self._run("mount", "-o", "loop", self._image, self.folder)

    def abort(self):
        """From now on every write, sync and open for writing says EROFS, those of files that are open too."""
        assert self._run("mount", "-o", "remount,abort", self.folder) == ""

    def unmount(self):
        return self._run("umount", self.folder)

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=harness.PATIENCE)
        return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


@pytest.fixture
def loop_disk(tmp_path):
    disk = LoopDisk(tmp_path / "image", tmp_path / "disk")
    why = disk.make()
    if why:
        pytest.skip(f"no loop device to mount: {why}")
    yield disk
    disk.unmount()


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_file_system_that_turns_read_only_under_load(loop_disk, tmp_path, binary, end):
    data = loop_disk.folder / "data"
    server = harness.Server(tmp_path, binary=binary, data_dir=data)
    with harness.running(server), server.client() as client:
        acknowledged = [client.enqueue("q", b"before") for _ in range(10)]
        first, *leased = client.lease("q", 4, wait=0, lease_duration=600)
        client.complete(first)
        more = []
        writers = [threading.Thread(target=lambda: more.extend(put_until_refused(client, b"x" * 1000)[0])) for _ in range(4)]
        for writer in writers:
            writer.start()
        harness.wait_until(lambda: len(list(client.peek("q"))) > 20, "tasks come in")
        loop_disk.abort()
        for writer in writers:
            writer.join(harness.PATIENCE)
            assert not writer.is_alive(), "a put hangs"
        acknowledged = {*acknowledged, *more} - {first.task_id}
        check_while_full(server, client)
        for task in leased:
            with pytest.raises(millrace.Unavailable):
                client.complete(task)
        getattr(server, end)()
        assert loop_disk.unmount() == ""
        # Which replays the journal.
        assert loop_disk.mount() == ""
        server.start()
        stored = {task.task_id for task in client.peek("q")}
        assert acknowledged <= stored
        assert first.task_id not in stored
        for task in leased:
            client.complete(task)
        client.enqueue("q", b"again")
        counts = client.describe("q").counts
        assert counts.conserved
        assert counts.done == 1 + len(leased)
        assert counts.waiting == len(stored) - len(leased) + 1


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
