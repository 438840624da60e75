"""Our client against other people's servers, and ours."""

import subprocess

import pytest

import programs

CASES = (
    "empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server "
    "cancel_after_begin cancel_after_first_response status_code_and_message special_status_message custom_metadata "
    "unimplemented_method unimplemented_service concurrent_large_unary rpc_soak channel_soak"
).split()
# grpc-go's server leaves compression alone; Java's compresses, but does not look whether we do.
COMPRESSION_CASES = (
    "client_compressed_unary_noprobe server_compressed_unary client_compressed_streaming_noprobe "
    "server_compressed_streaming"
).split()
OWN_CASES = ["client_compressed_unary", "client_compressed_streaming"]


@pytest.fixture(scope="module")
def go_server(tools):
    with programs.OtherServer(tools.go("server", "-port=0")) as server:
        yield server


@pytest.fixture(scope="module")
def java_server(tools):
    with programs.OtherServer(tools.java("TestServiceServer", "--use_tls=false", "--port=0")) as server:
        yield server


@pytest.fixture(scope="module")
def go_tls_server(tools, certificates):
    command = tools.go("server", "-port=0", "-use_tls", f"-tls_cert_file={certificates.cert}",
                       f"-tls_key_file={certificates.key}")  # fmt: skip
    with programs.OtherServer(command) as server:
        yield server


@pytest.fixture(scope="module")
def java_tls_server(tools):
    with programs.OtherServer(tools.java("TestServiceServer", "--use_tls=true", "--port=0")) as server:
        yield server


def run_case(build, server, case, certificates=None):
    tls = [f"--ca={certificates.ca}", f"--server-name={certificates.name}"] if certificates else []
    programs.run([build / "interop_client", f"--target={server.address}", f"--case={case}", *tls])


@pytest.mark.parametrize("case", CASES)
def test_go_server(build, go_server, case):
    run_case(build, go_server, case)


@pytest.mark.parametrize("case", CASES + COMPRESSION_CASES)
def test_java_server(build, java_server, case):
    run_case(build, java_server, case)


@pytest.mark.parametrize("case", CASES + COMPRESSION_CASES + OWN_CASES)
def test_own_server(build, server, case):
    run_case(build, server, case)


@pytest.mark.parametrize("case", CASES)
def test_go_server_tls(build, go_tls_server, certificates, case):
    run_case(build, go_tls_server, case, certificates)


@pytest.mark.parametrize("case", CASES)
def test_java_server_tls(build, java_tls_server, certificates, case):
    run_case(build, java_tls_server, case, certificates)


@pytest.mark.parametrize("case", CASES)
def test_own_server_tls(build, tls_server, certificates, case):
    run_case(build, tls_server, case, certificates)


def test_every_case_is_run(build):
    listed = subprocess.run([build / "interop_client", "--list"], capture_output=True, text=True, check=True)
    assert sorted(listed.stdout.split()) == sorted(CASES + COMPRESSION_CASES + OWN_CASES)
