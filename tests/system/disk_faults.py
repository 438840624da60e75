"""A server whose disk fails on command: the test's side of tests/faults/disk_faults.c."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import pathlib
import struct
from typing import Iterator

import harness

# The layout of the C side.
_FIELDS = ("write_error", "sync_error", "create_error", "read_error", "log_only", "torn", "short_writes",
           "lose_unsynced", "delay_us", "skip", "most", "faults", "writes", "syncs")
_KEPT = ("writes", "syncs")

# What can go wrong, by name.
FAULTS: dict[str, dict[str, int]] = {
    "disk full": {"write_error": errno.ENOSPC},
    "disk full, torn write": {"write_error": errno.ENOSPC, "torn": 1},
    "disk write errors": {"write_error": errno.EIO},
    "disk write errors, torn": {"write_error": errno.EIO, "torn": 1},
    "disk sync errors": {"sync_error": errno.EIO},
    "disk loses unsynced": {"sync_error": errno.EIO, "lose_unsynced": 1},
    "disk read-only": {"write_error": errno.EROFS, "sync_error": errno.EROFS, "create_error": errno.EROFS},
    "disk quota": {"write_error": errno.EDQUOT, "create_error": errno.EDQUOT},
    # These two make nothing fail.
    "disk slow": {"delay_us": 20_000},
    "disk writes little at a time": {"short_writes": 7},
}


def library(binary: pathlib.Path) -> pathlib.Path:
    """The fault injector, where the build puts it. A sanitizer build has none."""
    return binary.parent.parent / "lib" / "libmillrace_disk_faults.so"


class Disk:
    """The control block of one server's disk. Threads: any."""

    def __init__(self, folder: pathlib.Path, data_dir: pathlib.Path, binary: pathlib.Path):
        self._library = library(binary)
        self._data_dir = data_dir
        self._path = folder / "disk_faults"
        folder.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(bytes(4 * len(_FIELDS)))
        with self._path.open("r+b") as file:
            self._block = mmap.mmap(file.fileno(), 4 * len(_FIELDS))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "DISK_FAULTS_ROOT": os.path.abspath(self._data_dir),
                "DISK_FAULTS_CONTROL": str(self._path)}

    def get(self, name: str) -> int:
        return struct.unpack_from("=I", self._block, 4 * _FIELDS.index(name))[0]

    def set(self, **values: int) -> None:
        """Everything else as on a good disk. Errors come last, when the rest is in place."""
        for name in sorted((name for name in _FIELDS if name not in _KEPT), key=lambda name: name.endswith("_error")):
            self._put(name, values.get(name, 0))

    def heal(self) -> None:
        for name in (name for name in _FIELDS if name not in _KEPT):
            self._put(name, 0)

    @contextlib.contextmanager
    def fault(self, name: str, **more: int) -> Iterator[None]:
        self.set(**{**FAULTS[name], **more})
        try:
            yield
        finally:
            self.heal()

    def _put(self, name: str, value: int) -> None:
        struct.pack_into("=I", self._block, 4 * _FIELDS.index(name), value)


def make_server(folder: pathlib.Path, *flags: str, binary: pathlib.Path | None = None) -> tuple[harness.Server, Disk]:
    """A server, not started, on a disk that works until told otherwise."""
    binary = binary or harness.find_binary()
    disk = Disk(folder, folder / "data", binary)
    return harness.Server(folder, *flags, binary=binary, environment=disk.environment), disk
