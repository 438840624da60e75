"""grpcurl with no .proto file: all it knows comes from server reflection."""

import json
import subprocess

import pytest

import programs

TEST_SERVICE = "grpc.testing.TestService"


@pytest.fixture(scope="module")
def grpcurl(tools, server):
    """Runs grpcurl: flags, then what comes behind the address."""

    def run(*arguments: str, flags: tuple = ()) -> str:
        return programs.run(tools.go("grpcurl", "-plaintext", *flags, server.address, *arguments))

    return run


@pytest.fixture(scope="module")
def call(grpcurl):
    def run(method: str, request) -> list:
        """All responses, parsed."""
        text = grpcurl(method, flags=("-d", json.dumps(request)))
        decoder, at, found = json.JSONDecoder(), 0, []
        while at < len(text.rstrip()):
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            while at < len(text) and text[at].isspace():
                at += 1
        return found

    return run


def test_lists_services(grpcurl):
    assert set(grpcurl("list").split()) == {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        TEST_SERVICE,
    }


def test_lists_methods(grpcurl):
    methods = grpcurl("list", TEST_SERVICE).split()
    assert f"{TEST_SERVICE}.FullDuplexCall" in methods and len(methods) == 8


def test_describes_a_service_a_method_and_a_message(grpcurl):
    assert "rpc StreamingInputCall ( stream .grpc.testing.StreamingInputCallRequest )" in grpcurl(
        "describe", TEST_SERVICE
    )
    assert "rpc UnaryCall" in grpcurl("describe", f"{TEST_SERVICE}.UnaryCall")
    assert "bytes body = 2;" in grpcurl("describe", "grpc.testing.Payload")


def test_describes_the_other_services(grpcurl):
    assert "rpc Watch" in grpcurl("describe", "grpc.health.v1.Health")
    for version in ("v1", "v1alpha"):
        assert "rpc ServerReflectionInfo" in grpcurl("describe", f"grpc.reflection.{version}.ServerReflection")


def test_an_unknown_symbol_is_an_error(tools, server):
    done = subprocess.run(
        tools.go("grpcurl", "-plaintext", server.address, "describe", "no.such.Thing"),
        capture_output=True, text=True, timeout=programs.PATIENCE,
    )  # fmt: skip
    assert done.returncode != 0 and "not found" in done.stderr.lower()


def test_calls_unary(call):
    [response] = call(f"{TEST_SERVICE}/UnaryCall", {"response_size": 3})
    assert response == {"payload": {"body": "AAAA"}}


def test_calls_server_streaming(call):
    request = {"response_parameters": [{"size": 3}, {"size": 6}]}
    assert call(f"{TEST_SERVICE}/StreamingOutputCall", request) == [
        {"payload": {"body": "AAAA"}},
        {"payload": {"body": "AAAAAAAA"}},
    ]


def test_shows_an_error_with_code_and_message(tools, server):
    request = {"response_status": {"code": 9, "message": "not now"}}
    done = subprocess.run(
        tools.go("grpcurl", "-plaintext", "-d", json.dumps(request), server.address, f"{TEST_SERVICE}/UnaryCall"),
        capture_output=True, text=True, timeout=programs.PATIENCE,
    )  # fmt: skip
    assert "FailedPrecondition" in done.stderr and "not now" in done.stderr


def test_health(call):
    assert call("grpc.health.v1.Health/Check", {}) == [{"status": "SERVING"}]
    assert call("grpc.health.v1.Health/Check", {"service": TEST_SERVICE}) == [{"status": "SERVING"}]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_asks_each_version_of_reflection(call, version):
    [answer] = call(f"grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", {"list_services": "*"})
    names = {service["name"] for service in answer["listServicesResponse"]["service"]}
    assert TEST_SERVICE in names
    [answer] = call(
        f"grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", {"file_containing_symbol": TEST_SERVICE}
    )
    assert len(answer["fileDescriptorResponse"]["fileDescriptorProto"]) == 1
