"""The demonstration's audit finds every kind of loss and doubling, on books made by hand."""

import sys

import pytest
from harness import ROOT

sys.path.insert(0, str(ROOT / "scripts" / "demo"))

import audit  # noqa: E402
import records  # noqa: E402


def books(**changes):
    """Three records, one of them stored twice by a repeated call; all done, one without a confirmation."""
    ending = audit.Ending
    values = dict(
        records=["a", "b", "c"],
        acknowledged=["1", "2", "4"],
        stored={"1": "a", "2": "b", "3": "c", "4": "c"},
        endings={"python": [ending("1", "completed"), ending("2", "uncertain")],
                 "exec": [ending("2", "lease_lost"), ending("3", "completed"), ending("4", "completed")]},
        accepted=4, done=4, waiting=0, leased=0, dead=0, dropped=0)
    return audit.Books(**{**values, **changes})


def test_good_books():
    verdict = audit.check(books())
    assert verdict.problems == []
    assert (verdict.records, verdict.records_done, verdict.stored, verdict.stored_twice) == (3, 3, 4, 1)
    assert (verdict.lost, verdict.finished_twice, verdict.resolved, verdict.lease_lost) == (0, 0, 1, 1)
    assert verdict.confirmed == {"python": 1, "exec": 2}


def test_a_record_that_occurs_twice_in_the_input_is_no_doubling():
    verdict = audit.check(books(records=["a", "b", "c", "c"], acknowledged=["1", "2", "3", "4"]))
    assert verdict.problems == [] and verdict.stored_twice == 0


E = audit.Ending


@pytest.mark.parametrize(
    "changes,lost,twice,word",
    [
        (dict(records=["a", "b", "c", "d"]), 1, 0, "never stored"),
        (dict(records=["a", "b"]), 0, 0, "no record of the input"),
        (dict(acknowledged=["1", "2"]), 0, 0, "acknowledged for"),
        (dict(acknowledged=["1", "2", "9"]), 0, 0, "not in the store"),
        (dict(acknowledged=["2", "1", "3"]), 0, 0, "2 acknowledged tasks are not in the store"),
        (dict(accepted=5, done=5), 0, 0, "accepted 5"),
        (dict(endings={"python": [E("1", "completed"), E("2", "completed"), E("3", "completed")]}), 1, 0, "by nobody"),
        (dict(endings={"python": [E(i, "completed") for i in "12341"]}), 0, 1, "finished twice"),
        (dict(endings={"python": [E(i, "completed") for i in "1234"], "exec": [E("4", "completed")]}), 0, 1, "twice"),
        (dict(endings={"python": [E(i, "completed") for i in "12349"]}), 0, 0, "not stored"),
        (dict(endings={"python": [E(i, "completed") for i in "123"] + [E("4", "lease_lost")]}), 1, 0, "by nobody"),
        # An uncertain task that the server does not count as done.
        (dict(done=3, waiting=1), 0, 0, "still wait"),
        (dict(done=3, dropped=1), 0, 0, "dropped"),
        (dict(done=3, dead=1), 0, 0, "dead"),
        (dict(done=3), 0, 0, "add up"),
        (dict(done=3, leased=1), 0, 0, "counts 3 done"),
    ],
)
def test_bad_books(changes, lost, twice, word):
    verdict = audit.check(books(**changes))
    assert (verdict.lost, verdict.finished_twice) == (lost, twice)
    assert any(word in problem for problem in verdict.problems), verdict.problems


def test_records_are_split_as_the_command_does():
    index = b"Package: a\nVersion: 1\n\nPackage: b\nVersion: 2\n more\n\n\n"
    assert records.split_records(index, None) == [b"Package: a\nVersion: 1\n", b"Package: b\nVersion: 2\n more\n"]
    assert records.split_records(index, 1) == [b"Package: a\nVersion: 1\n"]


def test_records_are_checked():
    good = b"Package: a\nVersion: 1\nArchitecture: all\nSize: 7\nSHA256: " + b"0" * 64 + b"\nTag: x,\n y\n"
    assert records.parse(good).package == "a"
    local = b"Package: a\nVersion: 1\nArchitecture: all\nStatus: install ok installed\n"
    assert records.parse(local) == records.Package("a", "1", "all", "", "")
    for bad in (good.replace(b"Size: 7", b"Size: x"), good.replace(b"Version: 1", b"Version: "), b"nonsense\n",
                good.replace(b"0000", b"", 1)):
        with pytest.raises(ValueError):
            records.parse(bad)
