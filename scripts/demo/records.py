"""The demonstration's input: the package index that Debian ships, as `apt-cache dumpavail` prints it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass


class InputError(Exception):
    """There is no input to be had; the message says what to do."""


def read_index() -> bytes:
    """All records; fetches the package lists first when there are none yet (as root)."""
    if shutil.which("apt-cache") is None:
        raise InputError("apt-cache is not installed: the demonstration's input is Debian's package index")
    index = _dump()
    if not index.strip() and os.geteuid() == 0:
        print("no package lists yet: apt-get update", flush=True)
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        index = _dump()
    if not index.strip():
        raise InputError("apt-cache knows no packages: run apt-get update")
    return index


def _dump() -> bytes:
    return subprocess.run(["apt-cache", "dumpavail"], check=True, stdout=subprocess.PIPE).stdout


def split_records(index: bytes, count: int | None) -> list[bytes]:
    """The first `count` paragraphs (None = all), each with the line feed of its last line."""
    records = [part.strip(b"\n") + b"\n" for part in index.split(b"\n\n") if part.strip()]
    return records if count is None else records[:count]


def identity(record: bytes) -> str:
    """A record is known by the hash of its bytes."""
    return hashlib.sha256(record).hexdigest()


@dataclass(frozen=True)
class Package:
    """What is checked of a record."""

    package: str
    version: str
    architecture: str
    size: str
    sha256: str


def parse(record: bytes) -> Package:
    """Raises ValueError for what is no package record."""
    fields: dict[str, str] = {}
    for line in record.decode("utf-8").split("\n"):
        if line[:1] not in (" ", "\t", ""):
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"not a field: {line!r}")
            fields[name] = value.strip()
    found = Package(*(fields.get(name, "") for name in ("Package", "Version", "Architecture", "Size", "SHA256")))
    # A package that is installed but in no archive has neither of the last two; half of them is wrong.
    archived = found.size.isdigit() and len(found.sha256) == 64
    if not found.package or not found.version or not (archived or found.size == found.sha256 == ""):
        raise ValueError(f"wrong or missing fields: {found}")
    return found
