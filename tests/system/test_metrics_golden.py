"""Names, types and labels of all metrics, as dashboards know them. A change here breaks somebody's dashboard: change
golden/metrics.txt in the same commit, and say so in its message."""

import pathlib
import re

import pytest

import millrace

GOLDEN = pathlib.Path(__file__).parent / "golden" / "metrics.txt"
# Labels with a fixed set of values, which is part of the list; those of others depend on use.
FIXED_VALUES = ("reason", "state")
SAMPLE = re.compile(r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def shape(text: str) -> list[str]:
    """One line a metric: name, type, labels."""
    types: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types, f"{name} has two types"
            types[name] = kind
            labels[name] = set()
        elif line and not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, f"not a sample: {line}"
            family = match["name"]
            if family not in types:
                family = re.sub(r"_(bucket|sum|count)$", "", family)
            assert family in types, f"{line} has no type"
            for label, value in LABEL.findall(match["labels"] or ""):
                labels[family].add(f"{label}={value}" if label in FIXED_VALUES else label)
    return sorted(f"{name} {kind} {','.join(sorted(labels[name]))}".rstrip() for name, kind in types.items())


def test_names_types_and_labels_are_those_of_the_list(server):
    with server.client() as client:
        client.enqueue_many("q", [b"x"] * 5)
        done, failed, released, dead = client.lease("q", 4, wait=0)
        client.complete(done)
        client.fail(failed)
        client.release(released)
        client.fail(dead, permanent=True)
        client.extend_many("q", [b"stale"])
        with pytest.raises(millrace.QueueNotFound):
            client.describe("none")
        with pytest.raises(millrace.InvalidArgument):
            client.enqueue("not a name", b"x")
        assert client.lease("empty", wait=0) == []
    status, text = server.http("/metrics")
    assert status == 200
    found = shape(text)
    assert all(f"# HELP {line.split()[0]} " in text for line in found)
    assert found == GOLDEN.read_text().splitlines()


def test_an_idle_server_shows_the_same_metrics(server):
    """But for those of queues and calls, which appear with use: so that an alert is not on a metric that is missing."""
    def families(lines):
        return {line.split()[0] for line in lines}

    missing = families(GOLDEN.read_text().splitlines()) - families(shape(server.http("/metrics")[1]))
    assert missing <= {"millrace_queue_ack_lag", "millrace_queue_oldest_age_seconds", "millrace_queue_tasks",
                       "millrace_rpc_server_calls_total"}
