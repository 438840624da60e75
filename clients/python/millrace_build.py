"""Generates src/millrace/v1 (messages and stubs) from the service's .proto file.

Runs by itself when the package is installed. In a source tree, `python -m millrace_build` does it by hand after the
.proto file changed; it needs grpcio-tools. Nothing that is generated here is kept under version control.
"""

from __future__ import annotations

import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTO = "millrace/v1/queue.proto"
TARGET = HERE / "src" / "millrace" / "v1"
OUTPUTS = ("queue_pb2.py", "queue_pb2.pyi", "queue_pb2_grpc.py")


def proto_root() -> pathlib.Path:
    """The folder that holds millrace/v1/queue.proto: the repository's proto/, or the copy a source package carries."""
    for root in (HERE.parent.parent / "proto", HERE / "src"):
        if (root / PROTO).is_file():
            return root
    raise FileNotFoundError(f"{PROTO} is neither in the repository's proto/ nor in this package")


def is_fresh(source: pathlib.Path) -> bool:
    """Whether the stubs exist and were made from exactly this .proto text."""
    copy = TARGET / "queue.proto"
    if not all((TARGET / name).is_file() for name in OUTPUTS) or not copy.is_file():
        return False
    return copy == source or copy.read_bytes() == source.read_bytes()


def generate(force: bool = False) -> bool:
    """Makes the stubs when they are missing or out of date; returns whether anything was done."""
    root = proto_root()
    source = root / PROTO
    if not force and is_fresh(source):
        return False
    import grpc_tools
    from grpc_tools import protoc

    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "__init__.py").write_text('"""Generated messages and stubs of millrace.v1."""\n')
    out = HERE / "src"
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    status = protoc.main([
        "protoc", f"-I{root}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}",
        f"--grpc_python_out={out}", PROTO
    ])
    if status != 0:
        raise RuntimeError(f"protoc failed with exit code {status}")
    if source != TARGET / "queue.proto":
        shutil.copyfile(source, TARGET / "queue.proto")
    return True


if __name__ == "__main__":
    print("generated" if generate(force="--force" in sys.argv[1:]) else "up to date")
