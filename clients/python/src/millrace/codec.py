"""How a payload becomes bytes and back: the hook for typed payloads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable


@dataclass(frozen=True)
class Codec:
    """A pair of functions. Both run on the caller's threads and may raise: enqueue then raises, a worker fails the task."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _bytes_only(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a payload is bytes here, not {type(value).__name__}; give the client a codec for other types")


# Payloads as they are.
BYTES = Codec(_bytes_only, bytes)
# str, as UTF-8.
TEXT = Codec(lambda text: text.encode("utf-8"), lambda data: data.decode("utf-8"))
# Whatever the json module takes, as compact UTF-8.
JSON = Codec(
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8"),
    lambda data: json.loads(data.decode("utf-8")),
)
