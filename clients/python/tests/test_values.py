import datetime

import pytest

import millrace
from millrace import types
from millrace.work import load_handler, main


@pytest.mark.parametrize(
    "value,seconds,nanos",
    [(30, 30, 0), (0, 0, 0), (1.5, 1, 500_000_000), (0.000000001, 0, 1), (-1.5, -1, -500_000_000),
     (datetime.timedelta(minutes=2, milliseconds=5), 120, 5_000_000), (0.9999999999, 1, 0)],
)
def test_durations(value, seconds, nanos):
    duration = types.to_duration(value)
    assert (duration.seconds, duration.nanos) == (seconds, nanos)
    assert types.from_duration(duration) == pytest.approx(types.to_seconds(value), abs=1e-8)


def test_codecs():
    assert millrace.JSON.decode(millrace.JSON.encode({"ü": [1, None]})) == {"ü": [1, None]}
    assert millrace.TEXT.decode(millrace.TEXT.encode("ü")) == "ü"
    assert millrace.BYTES.encode(bytearray(b"\x00\xff")) == b"\x00\xff"
    with pytest.raises(TypeError, match="codec"):
        millrace.BYTES.encode("text")


def test_conservation():
    assert types.QueueCounts(6, 1, 2, 1, 1, 1).conserved
    counts = types.QueueCounts(7, 1, 2, 1, 1, 1)
    assert not counts.conserved
    assert str(counts) == "7 accepted != 1 done + 2 waiting + 1 leased + 1 dead + 1 dropped"


def test_a_state_of_tomorrow_is_unknown():
    assert types.TaskState(3) is types.TaskState.DEAD
    assert types.TaskState(99) is types.TaskState.UNKNOWN


def test_handlers_are_found():
    assert load_handler("os.path:basename")("a/b") == "b"
    assert load_handler("datetime:datetime.fromisoformat")("2024-01-01").year == 2024


@pytest.mark.parametrize("spec", ["os", ":f", "os:", "no_such_module_here:f", "os:no_such_function", "os:sep"])
def test_wrong_handlers_are_usage_errors(spec, capsys):
    assert main(["queue", spec]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_worker_needs_a_slot(capsys):
    assert main(["queue", "os.path:basename", "--slots", "0"]) == 2
    assert "slots" in capsys.readouterr().err
