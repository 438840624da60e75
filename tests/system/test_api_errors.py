"""Wrong calls: the right code and reason, nothing lost, the server still up (see the `shared` fixture)."""

import datetime

import grpc
import pytest

import millrace
from millrace import FailItem, NewTask
from millrace.v1 import queue_pb2, queue_pb2_grpc

Code = grpc.StatusCode
BAD_NAMES = ["", "/a", "a b", "ü", "a" * 201, "a\n", "a\x00b", "a:b", "a*"]
GOOD_NAMES = ["a", "A-Z_0.9/x", "a" * 200, "a//b", "-", ".", "_"]


def field_named(error, name):
    return any(field == name or field.startswith((name + ".", name + "[")) for field in error.fields)


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda c, q: c.enqueue(q, b"x"),
        lambda c, q: c.lease(q, wait=0),
        lambda c, q: c.complete_many(q, [b"t"]),
        lambda c, q: c.fail_many(q, [FailItem(b"t")]),
        lambda c, q: c.extend_many(q, [b"t"]),
        lambda c, q: c.release_many(q, [b"t"]),
        lambda c, q: list(c.peek(q)),
        lambda c, q: c.describe(q),
    ],
    ids=["enqueue", "lease", "complete", "fail", "extend", "release", "peek", "describe"],
)
def test_bad_queue_names(client, name, call):
    with pytest.raises(millrace.InvalidArgument) as caught:
        call(client, name)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert field_named(caught.value, "queue"), caught.value.fields


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_good_queue_names(client, name):
    task_id = client.enqueue(name, b"x")
    assert client.lease(name, wait=0)[0].task_id == task_id


def test_queues_never_used_are_not_found(client, queue):
    for call in (lambda: client.describe(queue), lambda: list(client.peek(queue))):
        with pytest.raises(millrace.QueueNotFound) as caught:
            call()
        assert (caught.value.code, caught.value.reason) == (Code.NOT_FOUND, "QUEUE_NOT_FOUND")


def test_looking_for_a_queue_does_not_make_it(client, queue):
    with pytest.raises(millrace.QueueNotFound):
        client.describe(queue)
    assert [q.name for q in client.list_queues(queue)] == []


def test_a_big_payload_is_refused_alone(client, queue):
    limit = 1 << 20
    results = client.enqueue_many(queue, [b"a", b"x" * (limit + 1), b"y" * limit, b"b"])
    assert [r.ok for r in results] == [True, False, True, True]
    error = results[1].error
    assert isinstance(error, millrace.PayloadTooLarge)
    assert (error.code, error.reason) == (Code.INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE")
    assert client.describe(queue).counts.accepted == 3


def test_a_request_beyond_the_message_limit(client, queue):
    with pytest.raises(millrace.ResourceExhausted):
        client.enqueue_many(queue, [b"x" * (1 << 20)] * 20)
    client.enqueue(queue, b"after")
    assert client.describe(queue).counts.accepted == 1


@pytest.mark.parametrize(
    "task,field",
    [
        (NewTask(b"", {f"h{i}": "" for i in range(65)}), "tasks[0].headers"),
        (NewTask(b"", {"h": "x" * 9000}), "tasks[0].headers"),
        (NewTask(b"", max_attempts=-1), "tasks[0].max_attempts"),
        (NewTask(b"", max_attempts=1_000_001), "tasks[0].max_attempts"),
        (NewTask(b"", time_to_live=-1), "tasks[0].time_to_live"),
        (NewTask(b"", time_to_live=0), "tasks[0].time_to_live"),
    ],
)
def test_bad_tasks(client, queue, task, field):
    """By item or as a whole: the field is named, and nothing is stored of the bad task."""
    try:
        error = client.enqueue_many(queue, [task])[0].error
    except millrace.MillraceError as caught:
        error = caught
        assert field_named(error, field), error.fields
    assert isinstance(error, millrace.InvalidArgument)
    assert field.split(".")[1] in str(error)
    assert client.lease(queue, wait=0) == []


@pytest.mark.parametrize("count", [0, 1001])
def test_item_counts(client, queue, count):
    calls = {
        "tasks": lambda: client.enqueue_many(queue, [b"x"] * count),
        "lease_tokens": lambda: client.complete_many(queue, [b"t"] * count),
        "items": lambda: client.fail_many(queue, [FailItem(b"t")] * count),
    }
    for field, call in calls.items():
        with pytest.raises(millrace.InvalidArgument) as caught:
            call()
        assert field_named(caught.value, field), (field, caught.value.fields)
    for call in (client.extend_many, client.release_many):
        with pytest.raises(millrace.InvalidArgument):
            call(queue, [b"t"] * count)


@pytest.mark.parametrize("duration", [0, -1, 0.05, 43201, datetime.timedelta(days=10_000)])
def test_bad_lease_durations(client, queue, duration):
    client.enqueue(queue, b"x")
    with pytest.raises(millrace.InvalidArgument) as caught:
        client.lease(queue, lease_duration=duration, wait=0)
    assert field_named(caught.value, "lease_duration"), caught.value.fields
    task = client.lease(queue, wait=0)[0]
    with pytest.raises(millrace.InvalidArgument) as caught:
        client.extend(task, duration)
    assert field_named(caught.value, "lease_duration"), caught.value.fields
    client.complete(task)


def test_durations_that_are_none(shared, queue):
    """What no honest client sends: seconds and nanos of different signs, nanos out of range, seconds at the edges."""
    with grpc.insecure_channel(shared.address) as channel:
        stub = queue_pb2_grpc.QueueServiceStub(channel)
        for seconds, nanos in [(1, -1), (-1, 1), (1, 1_000_000_000), (1, -1_000_000_000), (2**63 - 1, 999_999_999),
                               (-(2**63), 0), (315_576_000_001, 0)]:
            request = queue_pb2.LeaseRequest(queue=queue)
            request.lease_duration.seconds, request.lease_duration.nanos = seconds, nanos
            request.wait_time.seconds = 0
            with pytest.raises(grpc.RpcError) as caught:
                stub.Lease(request, timeout=10)
            assert caught.value.code() is Code.INVALID_ARGUMENT, (seconds, nanos)


@pytest.mark.parametrize("wait", [-1, -0.001])
def test_bad_waits(client, queue, wait):
    with pytest.raises(millrace.InvalidArgument) as caught:
        client.lease(queue, wait=wait, timeout=10)
    assert field_named(caught.value, "wait_time"), caught.value.fields


@pytest.mark.parametrize("count", [-1, 1001, 2**31 - 1])
def test_bad_task_counts(client, queue, count):
    with pytest.raises(millrace.InvalidArgument) as caught:
        client.lease(queue, count, wait=0)
    assert field_named(caught.value, "max_tasks"), caught.value.fields


def test_a_long_worker_id(client, queue):
    with pytest.raises(millrace.InvalidArgument) as caught:
        client.lease(queue, wait=0, worker_id="w" * 201)
    assert field_named(caught.value, "worker_id"), caught.value.fields
    assert client.lease(queue, wait=0, worker_id="w" * 200) == []


@pytest.mark.parametrize("token", [b"", b"x", b"\x00" * 16, b"\xff" * 64, b"t" * 100_000])
def test_tokens_that_are_none(client, queue, token):
    client.enqueue(queue, b"x")
    held = client.lease(queue, wait=0)[0]
    good = held.lease_token
    for call in (
        lambda: client.complete_many(queue, [token]),
        lambda: client.fail_many(queue, [FailItem(token, "m")]),
        lambda: client.extend_many(queue, [token]),
        lambda: client.release_many(queue, [token]),
    ):
        error = call()[0]
        if isinstance(error, millrace.InvalidArgument):
            # Bytes that cannot be a token of this server may be refused as such.
            assert len(token) != len(good)
            continue
        assert isinstance(error, millrace.LeaseLost), error
        assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, "LEASE_LOST")
    assert client.describe(queue).counts.leased == 1
    assert client.complete_many(queue, [good]) == [None]


def test_a_token_of_another_queue(client, queue):
    other = queue + "-other"
    client.enqueue(queue, b"x")
    client.enqueue(other, b"y")
    mine, theirs = client.lease(queue, wait=0)[0], client.lease(other, wait=0)[0]
    results = client.complete_many(queue, [theirs.lease_token, mine.lease_token])
    assert isinstance(results[0], millrace.LeaseLost) and results[1] is None
    client.complete(theirs)


def test_every_bit_of_a_token_counts(client, queue):
    client.enqueue(queue, b"x")
    task = client.lease(queue, wait=0)[0]
    flipped = []
    for i in range(len(task.lease_token) * 8):
        token = bytearray(task.lease_token)
        token[i // 8] ^= 1 << (i % 8)
        flipped.append(bytes(token))
    errors = client.complete_many(queue, flipped)
    # The first byte is the format: with another one it is no lease token at all.
    assert all(e.code == Code.INVALID_ARGUMENT for e in errors[:8])
    assert all(isinstance(e, millrace.LeaseLost) for e in errors[8:])
    client.complete(task)


def test_a_finished_task_cannot_be_ended_again(client, queue):
    client.enqueue(queue, b"x")
    task = client.lease(queue, wait=0)[0]
    client.complete(task)
    for call in (client.complete, client.fail, client.extend, client.release):
        with pytest.raises(millrace.LeaseLost) as caught:
            call(task)
        assert (caught.value.code, caught.value.reason) == (Code.FAILED_PRECONDITION, "LEASE_LOST")
    assert client.describe(queue).counts.done == 1


def test_a_token_twice_in_one_call_succeeds_once(client, queue):
    client.enqueue(queue, b"x")
    task = client.lease(queue, wait=0)[0]
    results = client.complete_many(queue, [task.lease_token] * 3)
    assert [r is None for r in results].count(True) == 1
    assert client.describe(queue).counts.done == 1


@pytest.mark.parametrize("page_size", [-1, 1001])
def test_bad_page_sizes(client, queue, page_size):
    client.enqueue(queue, b"x")
    for call in (lambda: list(client.peek(queue, page_size=page_size)),
                 lambda: list(client.list_queues(page_size=page_size))):
        with pytest.raises(millrace.InvalidArgument) as caught:
            call()
        assert field_named(caught.value, "page_size"), caught.value.fields


def test_page_tokens_that_are_none(shared, client, queue):
    client.enqueue(queue, b"x")
    with grpc.insecure_channel(shared.address) as channel:
        stub = queue_pb2_grpc.QueueServiceStub(channel)
        for call in (lambda: stub.Peek(queue_pb2.PeekRequest(queue=queue, page_token="!!"), timeout=10),
                     lambda: stub.List(queue_pb2.ListRequest(page_token="!!"), timeout=10)):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() is Code.INVALID_ARGUMENT


def test_an_unknown_state_to_peek(shared, client, queue):
    client.enqueue(queue, b"x")
    with grpc.insecure_channel(shared.address) as channel:
        stub = queue_pb2_grpc.QueueServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Peek(queue_pb2.PeekRequest(queue=queue, state=77), timeout=10)
        assert caught.value.code() is Code.INVALID_ARGUMENT


def test_unknown_methods_and_bytes_that_are_no_message(shared):
    with grpc.insecure_channel(shared.address) as channel:
        for path, code in [("/millrace.v1.QueueService/NoSuch", Code.UNIMPLEMENTED),
                           ("/no.Such/Method", Code.UNIMPLEMENTED)]:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(path)(b"", timeout=10)
            assert caught.value.code() is code
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/millrace.v1.QueueService/Enqueue")(b"\xff\xff\xff\xff", timeout=10)
        assert caught.value.code() in (Code.INVALID_ARGUMENT, Code.INTERNAL)


def test_bytes_that_are_no_text_leave_no_lines_of_their_own(shared):
    """A client's bad bytes are its own error; they do not write into the server's log past its level and format."""
    before = len(shared.log_text())
    with grpc.insecure_channel(shared.address) as channel:
        for method in ("Enqueue", "Lease", "Complete", "Describe"):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/millrace.v1.QueueService/{method}")(b"\x0a\x02\xff\xfe", timeout=10)
            assert caught.value.code() in (Code.INVALID_ARGUMENT, Code.INTERNAL)
    assert "protobuf" not in shared.log_text()[before:]
