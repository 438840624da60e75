"""Python's grpcio, its health and its reflection client against the test service.

Usage: grpcio_interop_test.py PATH_OF_rpc_echo_server
"""

import queue
import subprocess
import sys
import threading
import unittest

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

SERVER = None
PREFIX = "/millrace.test.Echo/"
LONG = 60  # A bound for what should take milliseconds.


class InteropTest(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen(
            [SERVER, "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        line = self.server.stdout.readline().split()
        self.assertEqual(line[0], "listening")
        self.target = line[1]
        self.channel = self.open_channel()

    def tearDown(self):
        self.channel.close()
        self.server.stdin.close()
        self.assertEqual(self.server.wait(LONG), 0)
        self.server.stdout.close()

    def open_channel(self, **kwargs):
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        return grpc.insecure_channel(self.target, options=options, **kwargs)

    def unary(self, name, channel=None):
        return (channel or self.channel).unary_unary(PREFIX + name)

    def test_unary_of_all_sizes(self):
        for size in (0, 1, 1000, 16384, 65536, 1 << 20, 4 << 20):
            payload = bytes([size % 251]) * size
            self.assertEqual(self.unary("Unary")(payload, timeout=LONG), payload)

    def test_many_at_once(self):
        calls = [self.unary("Unary").future(b"%d" % i, timeout=LONG) for i in range(3000)]
        for i, call in enumerate(calls):
            self.assertEqual(call.result(), b"%d" % i)

    def test_message_above_the_limit(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary("Unary")(bytes((4 << 20) + 1), timeout=LONG)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("4194305", caught.exception.details())

    def test_every_status_code_with_message_and_details(self):
        message = "100 % of \u00fcber\nlines \U0001f600"
        for code in grpc.StatusCode:
            number = code.value[0]
            if number == 0:
                continue
            with self.assertRaises(grpc.RpcError) as caught:
                self.unary("Fail")(
                    message.encode(),
                    timeout=LONG,
                    metadata=[("code", str(number)), ("details-bin", b"\x08\x05\x00\xff")],
                )
            self.assertEqual(caught.exception.code(), code)
            self.assertEqual(caught.exception.details(), message)
            trailers = dict(caught.exception.trailing_metadata())
            self.assertEqual(trailers["grpc-status-details-bin"], b"\x08\x05\x00\xff")

    def test_metadata_both_ways(self):
        sent = [("x-text", "a b"), ("x-text", "c"), ("x-raw-bin", bytes(range(256))), ("x-empty-bin", b"")]
        response, call = self.unary("Metadata").with_call(b"m", timeout=LONG, metadata=sent)
        self.assertEqual(response, b"m")
        for received in (call.initial_metadata(), call.trailing_metadata()):
            self.assertEqual([(k, v) for k, v in received if k.startswith("x-")], sent)

    def test_unknown_method_and_service(self):
        for path in (PREFIX + "Nothing", "/nobody.Here/Unary"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.channel.unary_unary(path)(b"", timeout=LONG)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_deadline_reaches_the_handler(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary("Park")(b"", timeout=0.05)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(self.unary("WaitCancelled")(b"1", timeout=LONG), b"seen")

    def test_cancel_reaches_the_handler(self):
        calls = [self.unary("Park").future(b"", timeout=LONG) for _ in range(50)]
        # Calls of one channel stay in order, so this one comes back after all of them have arrived.
        self.unary("Unary")(b"", timeout=LONG)
        for call in calls:
            call.cancel()
        self.assertEqual(self.unary("WaitCancelled")(b"50", timeout=LONG), b"seen")
        for call in calls:
            self.assertTrue(call.cancelled())

    def test_a_closed_channel_cancels_its_calls(self):
        other = self.open_channel()
        calls = [self.unary("Park", other).future(b"", timeout=LONG) for _ in range(10)]
        self.unary("Unary", other)(b"", timeout=LONG)
        other.close()
        self.assertEqual(self.unary("WaitCancelled")(b"10", timeout=LONG), b"seen")
        self.assertTrue(all(call.done() for call in calls))

    def test_gzip_requests(self):
        with self.open_channel(compression=grpc.Compression.Gzip) as channel:
            payload = b"again and again " * 100_000
            self.assertEqual(self.unary("Unary", channel)(payload, timeout=LONG), payload)

    def test_unknown_compression_is_unimplemented(self):
        with self.open_channel(compression=grpc.Compression.Deflate) as channel:
            with self.assertRaises(grpc.RpcError) as caught:
                self.unary("Unary", channel)(b"x" * 10_000, timeout=LONG)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_bidirectional_stream(self):
        outgoing = queue.Queue()
        incoming = self.channel.stream_stream(PREFIX + "Stream")(iter(outgoing.get, None), timeout=LONG)
        for i in range(200):
            outgoing.put(b"%d" % i)
            self.assertEqual(next(incoming), b"%d" % i)
        outgoing.put(None)
        self.assertEqual(list(incoming), [])
        self.assertEqual(incoming.code(), grpc.StatusCode.OK)

    def test_stream_of_large_messages(self):
        sent = [bytes([i]) * 1_000_000 for i in range(20)]
        received = self.channel.stream_stream(PREFIX + "Stream")(iter(sent), timeout=LONG)
        self.assertEqual(list(received), sent)

    def test_server_stream_and_its_status(self):
        call = self.channel.unary_stream(PREFIX + "Count")(b"5000", timeout=LONG)
        received = []
        with self.assertRaises(grpc.RpcError) as caught:
            for message in call:
                received.append(message)
        self.assertEqual(received, [b"%d" % i for i in range(5000)])
        self.assertEqual(caught.exception.code(), grpc.StatusCode.OUT_OF_RANGE)

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        for service in ("", "millrace.test.Echo", "grpc.health.v1.Health"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=LONG)
            self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)
        with self.assertRaises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=LONG)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=LONG)
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        self.tell("n")
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.NOT_SERVING)
        self.tell("s")
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        watch.cancel()
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"), timeout=LONG)
        self.assertEqual(next(unknown).status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        unknown.cancel()

    def test_reflection(self):
        database = ProtoReflectionDescriptorDatabase(self.channel)
        self.assertIn("grpc.health.v1.Health", database.get_services())
        self.assertIn("millrace.test.Echo", database.get_services())
        pool = descriptor_pool.DescriptorPool(database)
        service = pool.FindServiceByName("grpc.reflection.v1.ServerReflection")
        self.assertEqual([m.name for m in service.methods], ["ServerReflectionInfo"])
        health = pool.FindServiceByName("grpc.health.v1.Health")
        self.assertEqual(health.methods_by_name["Check"].input_type.full_name, "grpc.health.v1.HealthCheckRequest")
        with self.assertRaises(KeyError):
            pool.FindServiceByName("nobody.Here")

    def test_a_watch_does_not_hold_up_the_end(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=LONG)
        next(watch)
        ended = threading.Event()
        watch.add_callback(ended.set)
        self.server.stdin.close()
        with self.assertRaises(grpc.RpcError):
            list(watch)
        self.assertTrue(ended.wait(LONG))

    def tell(self, text):
        self.server.stdin.write(text)
        self.server.stdin.flush()


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    unittest.main(verbosity=2)
