"""`python -m millrace.work QUEUE MODULE:FUNCTION`: runs a function for the tasks of a queue."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
from typing import Any, Callable

from . import codec as codecs
from .client import Client
from .errors import MillraceError
from .job import Job, Outcome
from .tls import Tls
from .worker import Worker

_CODECS = {"bytes": codecs.BYTES, "text": codecs.TEXT, "json": codecs.JSON}


def load_handler(spec: str) -> Callable[[Job], Any]:
    """The function that MODULE:FUNCTION names; the current folder is searched too. Raises ValueError."""
    module_name, colon, path = spec.partition(":")
    if not colon or not module_name or not path:
        raise ValueError(f"{spec!r} is not MODULE:FUNCTION")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(f"no module {error.name!r} (looked in the current folder and where Python looks)") from error
    for name in path.split("."):
        if not hasattr(target, name):
            raise ValueError(f"{module_name} has no {path}")
        target = getattr(target, name)
    if not callable(target):
        raise ValueError(f"{spec} is not a function")
    return target


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m millrace.work",
        description="Leases tasks of QUEUE and calls FUNCTION(job) for each. A function that raises fails its task.",
        epilog="Exit codes: 0 ok, 1 failed, 2 usage. SIGTERM or SIGINT stops gracefully, a second one at once.",
    )
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("handler", metavar="MODULE:FUNCTION")
    parser.add_argument("--address", default=os.environ.get("MILLRACE_ADDRESS", "127.0.0.1:7630"),
                        help="host:port of the server (default: $MILLRACE_ADDRESS or 127.0.0.1:7630)")
    parser.add_argument("--tls", action="store_true", help="speak TLS; also MILLRACE_TLS=true")
    parser.add_argument("--tls-ca-file", metavar="FILE",
                        help="CA of the server's certificate; also MILLRACE_TLS_CA_FILE, and so on")
    parser.add_argument("--tls-cert-file", metavar="FILE", help="our own certificate")
    parser.add_argument("--tls-key-file", metavar="FILE", help="its key")
    parser.add_argument("--tls-server-name", metavar="NAME", help="whom the server's certificate must be for")
    parser.add_argument("--slots", type=int, default=4, help="tasks at a time (default: 4)")
    parser.add_argument("--lease", type=float, default=30.0, metavar="SECONDS",
                        help="lease duration; extended while the function runs (default: 30)")
    parser.add_argument("--grace", type=float, default=30.0, metavar="SECONDS",
                        help="how long running tasks may finish after a stop signal (default: 30)")
    parser.add_argument("--codec", choices=sorted(_CODECS), default="bytes",
                        help="what job.payload is (default: bytes)")
    parser.add_argument("--until-empty", action="store_true", help="end when the queue has no waiting or leased task")
    parser.add_argument("--verbose", action="store_true", help="log retries too")
    return parser.parse_args(argv)


def tls_of(args: argparse.Namespace) -> Tls | None:
    """What flags say, and the environment where they say nothing. Raises ValueError."""
    flags = {f"MILLRACE_TLS_{name.upper()}": getattr(args, f"tls_{name}")
             for name in ("ca_file", "cert_file", "key_file", "server_name")}
    given = {name: value for name, value in flags.items() if value}
    if args.tls:
        given["MILLRACE_TLS"] = "true"
    return Tls.from_environment({**os.environ, **given})


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        handler = load_handler(args.handler)
        client = Client(args.address, codec=_CODECS[args.codec], tls=tls_of(args) or False)
        worker = Worker(client, args.queue, handler, slots=args.slots, lease_duration=args.lease, grace=args.grace,
                        until_empty=args.until_empty)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    signals = 0

    def on_signal(*_: object) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            os._exit(1)
        print("stopping: finishing what runs; once more stops at once", file=sys.stderr)
        worker.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    try:
        stats = worker.run()
    except MillraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        client.close()
    print(", ".join(f"{stats.outcomes[o]} {o.value}" for o in Outcome if stats.outcomes[o] or o is Outcome.COMPLETED),
          file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
