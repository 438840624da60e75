import grpc
import pytest

from millrace import errors
from millrace.job import Job, Outcome
from millrace.settler import Settlement, outcome_of
from millrace.types import LeasedTask

LOST = errors.LeaseLost("", reason="LEASE_LOST")
READ_ONLY = errors.Unavailable("", reason="STORE_READ_ONLY")
DRAINING = errors.Unavailable("", reason="DRAINING")
UNKNOWN = errors.Unavailable("", reason="OUTCOME_UNKNOWN")
BROKEN = errors.Unavailable("the connection broke")
LATE = errors.DeadlineExceeded("")
FULL = errors.ResourceExhausted("", reason="QUOTA_EXCEEDED")
WRONG = errors.InvalidArgument("", code=grpc.StatusCode.INVALID_ARGUMENT)


def settlement(kind):
    task = LeasedTask("q", "id", b"token", b"", {}, 1, 0, 0.0, 30.0)
    return Settlement(Job(task), kind)


def play(kind, answers):
    """What the settler does with these answers in turn."""
    item = settlement(kind)
    for answer in answers:
        outcome = outcome_of(item, answer)
        if outcome is not None:
            return outcome
        item.unknown = item.unknown or not answer.surely_not_done
    return None


@pytest.mark.parametrize("kind", [Outcome.COMPLETED, Outcome.FAILED, Outcome.RELEASED])
@pytest.mark.parametrize(
    "answers,expected",
    [
        ([None], "kind"),
        ([LOST], Outcome.LEASE_LOST),
        ([WRONG], Outcome.ABANDONED),
        # Surely not done: what comes next is definite.
        ([READ_ONLY, None], "kind"),
        ([READ_ONLY, LOST], Outcome.LEASE_LOST),
        ([DRAINING, LOST], Outcome.LEASE_LOST),
        ([FULL, LOST], Outcome.LEASE_LOST),
        # It may have been done: LEASE_LOST does not tell.
        ([BROKEN, LOST], Outcome.UNCERTAIN),
        ([UNKNOWN, LOST], Outcome.UNCERTAIN),
        ([LATE, LOST], Outcome.UNCERTAIN),
        ([BROKEN, READ_ONLY, LOST], Outcome.UNCERTAIN),
        # Success is success, whatever was before.
        ([BROKEN, BROKEN, None], "kind"),
        ([BROKEN, READ_ONLY], None),
    ],
)
def test_outcomes(kind, answers, expected):
    assert play(kind, answers) == (kind if expected == "kind" else expected)
