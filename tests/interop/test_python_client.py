"""Python's grpcio (the C core) through the published cases, with messages learned from server reflection."""

import queue
import time

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

LONG = 60
SIZES = [(27182, 31415), (8, 9), (1828, 2653), (45904, 58979)]
ECHO_INITIAL, ECHO_TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


class Stub:
    """Calls methods of one service by name."""

    def __init__(self, channel, service="grpc.testing.TestService"):
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        self._service = pool.FindServiceByName(service)
        self._channel = channel
        self.message = lambda name: GetMessageClass(pool.FindMessageTypeByName(f"grpc.testing.{name}"))

    def __getattr__(self, name):
        method = self._service.methods_by_name[name]
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        return getattr(self._channel, kind)(
            f"/{self._service.full_name}/{name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )

    def request(self, size: int, payload: int = 0, **fields):
        return self.message("SimpleRequest")(response_size=size, payload={"body": bytes(payload)}, **fields)

    def output_request(self, *sizes: int, payload: int = 0, **fields):
        return self.message("StreamingOutputCallRequest")(
            response_parameters=[{"size": size} for size in sizes], payload={"body": bytes(payload)}, **fields
        )


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel):
    return Stub(channel)


def test_empty_unary(stub):
    assert stub.EmptyCall(stub.message("Empty")(), timeout=LONG).ByteSize() == 0


def test_large_unary(stub):
    response = stub.UnaryCall(stub.request(314159, 271828), timeout=LONG)
    assert response.payload.body == bytes(314159)


def test_client_streaming(stub):
    message = stub.message("StreamingInputCallRequest")
    requests = [message(payload={"body": bytes(size)}) for size, _ in SIZES]
    assert stub.StreamingInputCall(iter(requests), timeout=LONG).aggregated_payload_size == 74922


def test_server_streaming(stub):
    sizes = [size for _, size in SIZES]
    received = stub.StreamingOutputCall(stub.output_request(*sizes), timeout=LONG)
    assert [len(response.payload.body) for response in received] == sizes


def test_half_duplex(stub):
    requests = [stub.output_request(size) for _, size in SIZES]
    received = stub.HalfDuplexCall(iter(requests), timeout=LONG)
    assert [len(response.payload.body) for response in received] == [size for _, size in SIZES]


def test_ping_pong(stub):
    outgoing = queue.Queue()
    incoming = stub.FullDuplexCall(iter(outgoing.get, None), timeout=LONG)
    for sent, wanted in SIZES:
        outgoing.put(stub.output_request(wanted, payload=sent))
        assert len(next(incoming).payload.body) == wanted
    outgoing.put(None)
    assert list(incoming) == [] and incoming.code() is grpc.StatusCode.OK


def test_empty_stream(stub):
    assert list(stub.FullDuplexCall(iter(()), timeout=LONG)) == []


def test_cancel_after_begin(stub):
    outgoing = queue.Queue()
    call = stub.StreamingInputCall.future(iter(outgoing.get, None), timeout=LONG)
    call.cancel()
    outgoing.put(None)
    assert call.cancelled() and call.code() is grpc.StatusCode.CANCELLED


def test_cancel_after_first_response(stub):
    outgoing = queue.Queue()
    incoming = stub.FullDuplexCall(iter(outgoing.get, None), timeout=LONG)
    outgoing.put(stub.output_request(31415, payload=27182))
    next(incoming)
    incoming.cancel()
    outgoing.put(None)
    with pytest.raises(grpc.RpcError) as caught:
        next(incoming)
    assert caught.value.code() is grpc.StatusCode.CANCELLED


def test_timeout_on_sleeping_server(stub):
    request = stub.output_request(1, payload=27182)
    request.response_parameters[0].interval_us = 60_000_000
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        next(stub.FullDuplexCall(iter([request]), timeout=0.001))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - began < 50


def test_custom_metadata(stub):
    metadata = [(ECHO_INITIAL, "test_initial_metadata_value"), (ECHO_TRAILING, b"\xab\xab\xab")]
    _, unary = stub.UnaryCall.with_call(stub.request(314159, 271828), metadata=metadata, timeout=LONG)
    duplex = stub.FullDuplexCall(iter([stub.output_request(314159)]), metadata=metadata, timeout=LONG)
    assert len(list(duplex)) == 1
    for call in (unary, duplex):
        assert (ECHO_INITIAL, "test_initial_metadata_value") in call.initial_metadata()
        assert (ECHO_TRAILING, b"\xab\xab\xab") in call.trailing_metadata()


@pytest.mark.parametrize("message", ["test status message", "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"])
def test_status_code_and_message(stub, message):
    status = {"code": 2, "message": message}
    calls = (
        lambda: stub.UnaryCall(stub.request(0, response_status=status), timeout=LONG),
        lambda: list(stub.FullDuplexCall(iter([stub.output_request(response_status=status)]), timeout=LONG)),
    )
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, message)


@pytest.mark.parametrize("method", ["/grpc.testing.TestService/UnimplementedCall", "/grpc.testing.UnimplementedService/UnimplementedCall"])
def test_unimplemented(channel, method):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(method)(b"", timeout=LONG)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_client_compressed_unary(stub):
    message = stub.request(314159, 271828, expect_compressed={"value": True})
    with pytest.raises(grpc.RpcError) as caught:
        stub.UnaryCall(message, timeout=LONG)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    response = stub.UnaryCall(message, timeout=LONG, compression=grpc.Compression.Gzip)
    assert len(response.payload.body) == 314159


def test_server_compressed(stub):
    for wanted in (True, False):
        response = stub.UnaryCall(stub.request(314159, 271828, response_compressed={"value": wanted}), timeout=LONG)
        assert len(response.payload.body) == 314159
    request = stub.output_request(31415, 92653)
    request.response_parameters[0].compressed.value = True
    request.response_parameters[1].compressed.value = False
    sizes = [len(response.payload.body) for response in stub.StreamingOutputCall(request, timeout=LONG)]
    assert sizes == [31415, 92653]


def test_concurrent_large_unary(stub):
    calls = [stub.UnaryCall.future(stub.request(314159, 271828), timeout=LONG) for _ in range(200)]
    assert all(len(call.result().payload.body) == 314159 for call in calls)
