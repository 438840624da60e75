import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import millrace
from millrace import errors
from millrace.v1 import queue_pb2


def packed(*messages):
    status = status_pb2.Status(code=14)
    for message in messages:
        any_message = any_pb2.Any()
        any_message.Pack(message)
        status.details.append(any_message)
    return status.SerializeToString()


def test_details_are_read():
    data = packed(
        error_details_pb2.ErrorInfo(reason="STORE_READ_ONLY", domain="millrace"),
        error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1, nanos=500_000_000)),
        error_details_pb2.BadRequest(field_violations=[{"field": "tasks[3].payload", "description": "too big"}]),
    )
    assert errors.read_details(data) == ("STORE_READ_ONLY", 1.5, {"tasks[3].payload": "too big"})


def test_another_domains_reason_is_not_ours():
    data = packed(error_details_pb2.ErrorInfo(reason="LEASE_LOST", domain="proxy.example"))
    assert errors.read_details(data)[0] == ""


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff", b"\x1a\x7f", bytes(range(256))])
def test_damaged_details_count_as_none(data):
    assert errors.read_details(data) == ("", None, {})


@pytest.mark.parametrize(
    "code,reason,expected",
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST", millrace.LeaseLost),
        (grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", millrace.QueueNotFound),
        (grpc.StatusCode.INVALID_ARGUMENT, "", millrace.InvalidArgument),
        (grpc.StatusCode.INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE", millrace.PayloadTooLarge),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", millrace.ResourceExhausted),
        (grpc.StatusCode.UNAVAILABLE, "DRAINING", millrace.Unavailable),
        (grpc.StatusCode.UNAVAILABLE, "A_REASON_OF_TOMORROW", millrace.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", millrace.DeadlineExceeded),
        (grpc.StatusCode.UNIMPLEMENTED, "", millrace.MillraceError),
    ],
)
def test_classes(code, reason, expected):
    item = queue_pb2.ItemError(code=code.value[0], reason=reason, message="text")
    error = errors.from_item(item)
    assert type(error) is expected
    assert (error.code, error.reason, error.message) == (code, reason, "text")
    assert code.name in str(error) and "text" in str(error)


def test_an_unknown_number_is_unknown():
    assert errors.from_item(queue_pb2.ItemError(code=4711)).code is grpc.StatusCode.UNKNOWN


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_only_a_servers_word_makes_it_surely_not_done(code):
    # Without a reason, everything that a broken connection or a dying server can look like leaves the outcome open.
    error = errors.error_class(code, "")("", code=code)
    open_outcome = code.name in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "UNKNOWN", "DATA_LOSS")
    assert error.surely_not_done != open_outcome


def test_a_call_that_found_no_connection_was_never_sent():
    with millrace.Client("127.0.0.1:1") as client:
        with pytest.raises(millrace.Unavailable) as caught:
            client.describe("q")
    assert caught.value.surely_not_done
    assert not millrace.Unavailable("Socket closed").surely_not_done
    # Only gRPC's own words count, not a server's.
    assert not millrace.Unavailable(caught.value.message, reason="OUTCOME_UNKNOWN").surely_not_done
