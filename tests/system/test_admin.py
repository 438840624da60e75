"""The admin port, health and reflection, as other people's tools see them."""

import http.client
import re
import subprocess
import threading

import grpc
import millrace
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from harness import wait_until

SERVICE = "millrace.v1.QueueService"


@pytest.fixture
def channel(shared):
    with grpc.insecure_channel(shared.address) as channel:
        yield channel


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health_paths(shared, path):
    assert shared.http(path)[0] == 200


def test_version(shared):
    status, body = shared.http("/version")
    assert status == 200
    assert re.search(r"\d+\.\d+\.\d+", body)


def test_the_front_page_says_where_to_look(shared):
    status, body = shared.http("/")
    assert status == 200
    assert "/metrics" in body


@pytest.mark.parametrize("path", ["/nothing", "/livez/x", "/%00", "/../etc/passwd"])
def test_unknown_paths(shared, path):
    assert shared.http(path)[0] in (400, 404)


def test_other_methods_are_refused(shared):
    host, port = shared.admin.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("DELETE", "/metrics")
    assert connection.getresponse().status in (404, 405)
    connection.close()


SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\.)*",?)*\})? '
                    r"(-?[0-9.eE+-]+|NaN|[+-]Inf)$")


def scrape(server):
    """Name and labels -> value; every line must parse."""
    status, body = server.http("/metrics")
    assert status == 200
    samples = {}
    for text in body.splitlines():
        if text and not text.startswith("#"):
            found = SAMPLE.match(text)
            assert found, text
            assert found.group(1).startswith(("millrace_", "process_")), text
            samples[found.group(1) + (found.group(2) or "")] = float(found.group(5))
    return samples


def test_metrics_count(shared, client, queue):
    before = scrape(shared)
    client.enqueue_many(queue, [b"x"] * 7)
    done, failed, released = client.lease(queue, 3, wait=0)
    client.complete(done)
    client.fail(failed)
    client.release(released)
    with pytest.raises(millrace.LeaseLost):
        client.complete(done)
    after = scrape(shared)
    rises = {name: after[name] - before.get(name, 0) for name in after}
    assert rises["millrace_tasks_enqueued_total"] == 7
    assert rises["millrace_tasks_leased_total"] == 3
    assert rises["millrace_tasks_completed_total"] == 1
    assert rises["millrace_tasks_failed_total"] == 1
    assert rises["millrace_tasks_released_total"] == 1
    assert rises["millrace_lease_lost_total"] == 1
    # Task ids never become labels.
    assert not any(done.task_id in name for name in after if len(done.task_id) > 8)
    assert not any("task_id" in name for name in after)


@pytest.mark.parametrize("service", ["", SERVICE])
def test_health_check(channel, service):
    reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
    assert reply.status == health_pb2.HealthCheckResponse.SERVING


def test_health_of_an_unknown_service(channel):
    with pytest.raises(grpc.RpcError) as caught:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="no.Such"), timeout=10)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_health_watch_says_the_state_at_once(channel):
    stream = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=10)
    assert next(stream).status == health_pb2.HealthCheckResponse.SERVING
    stream.cancel()


def reflect(channel, request):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    return next(iter(stub.ServerReflectionInfo(iter([request]), timeout=10)))


def test_reflection_lists_the_services(channel):
    reply = reflect(channel, reflection_pb2.ServerReflectionRequest(list_services=""))
    names = {service.name for service in reply.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


def test_reflection_describes_the_service(channel):
    reply = reflect(channel, reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE))
    files = [descriptor_pb2.FileDescriptorProto.FromString(data)
             for data in reply.file_descriptor_response.file_descriptor_proto]
    methods = {m.name for f in files for s in f.service if s.name == "QueueService" for m in s.method}
    assert methods == {"Enqueue", "Lease", "Complete", "Fail", "Extend", "Release", "Peek", "Describe", "List"}


def test_reflection_of_an_unknown_symbol(channel):
    reply = reflect(channel, reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.Such"))
    assert reply.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_health_watch_sees_the_drain(server):
    """A parked poll keeps the server draining long enough to be seen; the watcher hears NOT_SERVING."""
    with grpc.insecure_channel(server.address) as channel:
        seen: list[int] = []

        def watch():
            try:
                for reply in health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60):
                    seen.append(reply.status)
            except grpc.RpcError:
                pass

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        wait_until(lambda: seen == [health_pb2.HealthCheckResponse.SERVING], "serving")
        assert server.terminate() == 0
        thread.join(60)
        assert seen[-1] == health_pb2.HealthCheckResponse.NOT_SERVING


def test_version_as_the_command_says(shared, binary):
    told = subprocess.run([binary, "version"], capture_output=True, text=True, timeout=30)
    assert told.returncode == 0
    version = re.search(r"\d+\.\d+\.\d+", told.stdout).group()
    assert version in shared.http("/version")[1]
