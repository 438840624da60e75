"""grpc-go's interoperability client, every case that needs no cloud account."""

import pytest

import programs

CASES = (
    "empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server "
    "cancel_after_begin cancel_after_first_response status_code_and_message special_status_message custom_metadata "
    "unimplemented_method unimplemented_service pick_first_unary rpc_soak channel_soak orca_per_rpc orca_oob"
).split()
# Load reports reach the test through a balancer that is part of the client.
FLAGS = {
    "orca_per_rpc": ['--service_config_json={"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}'],
    "orca_oob": ['--service_config_json={"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}'],
    "pick_first_unary": ['--service_config_json={"loadBalancingConfig":[{"pick_first":{}}]}'],
    # How fast this machine is today is not the question.
    "rpc_soak": ["--soak_iterations=300", "--soak_overall_timeout_seconds=100",
                 "--soak_per_iteration_max_acceptable_latency_ms=60000", "--soak_num_threads=4"],
    "channel_soak": ["--soak_iterations=100", "--soak_overall_timeout_seconds=100",
                     "--soak_per_iteration_max_acceptable_latency_ms=60000", "--soak_num_threads=4"],
}  # fmt: skip


def run_case(tools, server, case, *flags):
    programs.run(
        tools.go("client", f"--server_host={server.host}", f"--server_port={server.port}", f"--test_case={case}",
                 *FLAGS.get(case, []), *flags)
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_go_client(tools, server, case):
    run_case(tools, server, case)


@pytest.mark.parametrize("case", CASES)
def test_go_client_tls(tools, tls_server, certificates, case):
    run_case(tools, tls_server, case, "--use_tls", "--use_test_ca", f"--ca_file={certificates.ca}",
             f"--server_host_override={certificates.name}")  # fmt: skip
