"""The log of a real data directory, cut off or with a wrong byte at many places: the server starts with everything that was
acknowledged before the damage, or refuses with file and place and changes nothing. docs/storage_format.md says which."""

from __future__ import annotations

import itertools
import pathlib
import random
import shutil

import pytest

import harness
import millrace

TASKS = 24
CUTS = 24
FLIPS = 24


class Recording:
    """A data directory whose server was killed after tasks that were acknowledged one by one, and how long the log was
    when each one was."""

    def __init__(self, folder: pathlib.Path, binary: pathlib.Path):
        self.binary = binary
        server = harness.Server(folder, binary=binary)
        self.data = server.data_dir
        self.ids: list[str] = []
        self.sizes: list[int] = []
        with harness.running(server):
            logs = list((self.data / "db").glob("*.log"))
            assert len(logs) == 1
            self.log = logs[0].relative_to(self.data)
            with server.client() as client:
                for number in range(TASKS):
                    self.ids.append(client.enqueue("q", b"%d" % number * (1 + number % 40)))
                    self.sizes.append(logs[0].stat().st_size)
        self.bytes = (self.data / self.log).read_bytes()
        assert len(self.bytes) >= self.sizes[-1] > self.sizes[0]

    def copy(self, folder: pathlib.Path, log: bytes) -> harness.Server:
        """A server, not started, over a copy with this log in it."""
        shutil.copytree(self.data, folder / "data")
        (folder / "data" / self.log).write_bytes(log)
        return harness.Server(folder, binary=self.binary)

    def acknowledged_within(self, size: int) -> list[str]:
        return [i for i, end in zip(self.ids, self.sizes) if end <= size]


@pytest.fixture(scope="module")
def recording(tmp_path_factory, binary):
    return Recording(tmp_path_factory.mktemp("recording"), binary)


def stored(server: harness.Server) -> list[str]:
    with server.client() as client:
        try:
            ids = [task.task_id for task in client.peek("q", page_size=1000)]
        except millrace.QueueNotFound:
            ids = []
        # And it works.
        new = client.enqueue("q", b"new")
        assert new not in ids
        assert client.describe("q").counts.conserved
    return ids


def places(count: int, begin: int, end: int) -> list[int]:
    """The ends, and others between them: always the same."""
    rng = random.Random(5)
    return sorted({begin, end - 1, *(rng.randrange(begin, end) for _ in range(count - 2))})


def test_cut_off(recording, tmp_path):
    """What a power failure leaves of a write that was never acknowledged; and, further up, of ones that were, which only
    a broken disk does: everything before the cut is there, in order and nothing else."""
    numbers = itertools.count()
    for size in [*places(CUTS, 0, len(recording.bytes)), *recording.sizes[-3:]]:
        server = recording.copy(tmp_path / f"cut{next(numbers)}", recording.bytes[:size])
        with harness.running(server):
            ids = stored(server)
            kept = recording.acknowledged_within(size)
            assert ids[:len(kept)] == kept, f"cut at {size}: lost {len(kept)} -> {len(ids)}"
            assert ids == recording.ids[:len(ids)] and len(ids) <= len(kept) + 1, f"cut at {size}"
            torn = size not in recording.sizes and size != 0
            said = "cut off" in server.log_text() or "torn" in server.log_text()
            assert said or not torn or ids == kept, server.log_text()
            # And once more, from what this start made of it.
            server.restart()
            assert stored(server)[:len(ids)] == ids


def test_a_wrong_byte(recording, tmp_path):
    """Later records tell that the damaged one had been synced: refused, and nothing is changed, so that the good bytes
    bring everything back. Only damage to the last ones looks like a torn write."""
    numbers = itertools.count()
    refused = 0
    for place in places(FLIPS, 0, len(recording.bytes)):
        damaged = bytearray(recording.bytes)
        damaged[place] ^= 1 << place % 8
        server = recording.copy(tmp_path / f"flip{next(numbers)}", bytes(damaged))
        before = recording.acknowledged_within(place)
        try:
            with harness.running(server):
                ids = stored(server)
                assert ids[:len(before)] == before, f"byte {place}"
                assert ids == recording.ids[:len(ids)]
                # Never more than the last acknowledged record of a log may go unnoticed.
                assert len(ids) >= TASKS - 1, f"byte {place}: {len(ids)} of {TASKS}\n{server.log_text()}"
        except harness.StartError as error:
            refused += 1
            assert error.exit_code > 0
            assert str(server.data_dir) in error.output and "damaged" in error.output, error.output
            assert recording.log.name in error.output, error.output
            assert (server.data_dir / recording.log).read_bytes() == bytes(damaged)
            (server.data_dir / recording.log).write_bytes(recording.bytes)
            with harness.running(server):
                assert stored(server) == recording.ids
    assert refused > FLIPS // 2
