"""gRPC Java's interoperability client with both of its transports, every case that needs no cloud account."""

import pytest

import programs

CASES = (
    "empty_unary large_unary client_compressed_unary client_compressed_unary_noprobe server_compressed_unary "
    "client_streaming client_compressed_streaming client_compressed_streaming_noprobe server_streaming "
    "server_compressed_streaming ping_pong empty_stream custom_metadata status_code_and_message "
    "special_status_message unimplemented_method unimplemented_service cancel_after_begin "
    "cancel_after_first_response timeout_on_sleeping_server very_large_request pick_first_unary rpc_soak "
    "channel_soak orca_per_rpc orca_oob"
).split()
# What depends on frames and windows, once more: OkHttp's HTTP/2 is another implementation, and TLS cuts frames anew.
FEW_CASES = "large_unary client_streaming server_streaming ping_pong cancel_after_first_response".split()
FLAGS = {
    "orca_per_rpc": ['--service_config_json={"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}'],
    "orca_oob": ['--service_config_json={"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}'],
    "pick_first_unary": ['--service_config_json={"loadBalancingConfig":[{"pick_first":{}}]}'],
    "rpc_soak": ["--soak_iterations=100", "--soak_overall_timeout_seconds=100",
                 "--soak_per_iteration_max_acceptable_latency_ms=60000"],
    "channel_soak": ["--soak_iterations=20", "--soak_overall_timeout_seconds=100",
                     "--soak_per_iteration_max_acceptable_latency_ms=60000"],
}  # fmt: skip


def run_case(tools, server, case, *flags):
    programs.run(
        tools.java("TestServiceClient", f"--server_host={server.host}",
                   f"--server_port={server.port}", f"--test_case={case}", *FLAGS.get(case, []), *flags)
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_java_client(tools, server, case):
    run_case(tools, server, case, "--use_tls=false")


@pytest.mark.parametrize("case", FEW_CASES)
def test_java_client_okhttp(tools, server, case):
    run_case(tools, server, case, "--use_tls=false", "--use_okhttp=true")


@pytest.mark.parametrize("case", FEW_CASES)
def test_java_client_tls(tools, tls_server, certificates, case):
    run_case(tools, tls_server, case, "--use_tls=true", "--use_test_ca=true",
             f"--server_host_override={certificates.name}")  # fmt: skip
