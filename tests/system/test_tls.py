"""TLS and mutual TLS on the real binary: server, CLI, Python client."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess

import grpc
import pytest

import harness
import millrace
from certificates import Authority

OK, USAGE, UNAVAILABLE = 0, 2, 4


@pytest.fixture(scope="module")
def ca(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Authority:
    """An authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "Stranger CA")


def identity_flags(files) -> list[str]:
    return ["--rpc-tls-cert-file", str(files[0]), "--rpc-tls-key-file", str(files[1])]


@pytest.fixture
def tls_server(make_server, ca):
    return make_server(*identity_flags(ca.issue("server"))).start()


@pytest.fixture
def mutual_server(make_server, ca):
    return make_server(*identity_flags(ca.issue("server")), "--rpc-tls-client-ca-file", str(ca.cert_file)).start()


def check(server: harness.Server, *flags: str, exit_code: int, env: dict[str, str] | None = None) -> str:
    """`server check` with these flags; its standard error."""
    done = subprocess.run(
        [str(harness.find_binary()), "server", "check", "--address", server.address, "--timeout", "20s", *flags],
        capture_output=True, text=True, timeout=harness.PATIENCE, env={**harness.clean_environment(), **(env or {})})
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stderr


def trust(authority: Authority) -> list[str]:
    return ["--tls-ca-file", str(authority.cert_file)]


def served_name(server: harness.Server) -> str:
    """The common name in the certificate that a server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=harness.PATIENCE) as plain, \
            context.wrap_socket(plain) as connection:
        certificate = connection.getpeercert(binary_form=True)
    done = subprocess.run(["openssl", "x509", "-inform", "DER", "-noout", "-subject", "-nameopt", "multiline"],
                          input=certificate, capture_output=True, check=True)
    return done.stdout.decode().rsplit("=", 1)[1].strip()


def test_cli_and_python_do_work_over_tls(tls_server, ca):
    queue = "secure"
    assert tls_server.cli("task", "enqueue", queue, "one", "two", *trust(ca)).returncode == OK
    with tls_server.client(tls=millrace.Tls(ca_file=ca.cert_file)) as client:
        client.enqueue(queue, b"x" * 900_000)
        leased = client.lease(queue, 3, wait=5)
        assert [len(task.data) for task in leased] == [3, 3, 900_000]
        client.complete_many(queue, [task.lease_token for task in leased])
    assert tls_server.cli("audit", queue, *trust(ca)).returncode == OK


def test_tls_may_come_from_the_environment(tls_server, ca):
    check(tls_server, exit_code=OK, env={"MILLRACE_TLS": "true", "MILLRACE_TLS_CA_FILE": str(ca.cert_file)})
    check(tls_server, "--tls-server-name", "localhost", exit_code=OK,
          env={"MILLRACE_TLS_CA_FILE": str(ca.cert_file)})
    assert "MILLRACE_TLS" in check(tls_server, exit_code=USAGE, env={"MILLRACE_TLS": "perhaps"})


def test_the_wrong_ca_the_wrong_name_and_no_tls_get_clear_errors(tls_server, ca, stranger):
    assert "certificate is not accepted" in check(tls_server, *trust(stranger), exit_code=UNAVAILABLE)
    assert "hostname mismatch" in check(
        tls_server, *trust(ca), "--tls-server-name", "elsewhere.test", exit_code=UNAVAILABLE)
    words = check(tls_server, exit_code=UNAVAILABLE)
    assert "the peer speaks TLS" in words and "hint: the server wants TLS: give --tls" in words
    assert "cannot use CA file /nonexistent" in check(
        tls_server, "--tls-ca-file", "/nonexistent", exit_code=UNAVAILABLE)
    with tls_server.client(timeout=5) as plain, pytest.raises(millrace.MillraceError):
        plain.enqueue("q", b"x")
    with tls_server.client(tls=millrace.Tls(ca_file=stranger.cert_file), timeout=5) as client, \
            pytest.raises(millrace.MillraceError):
        client.enqueue("q", b"x")
    assert "TLS handshake failed" in tls_server.log_text()
    # Nobody else was hurt.
    check(tls_server, *trust(ca), exit_code=OK)


def test_tls_at_a_plain_port_gets_a_clear_error(server, ca):
    words = check(server, *trust(ca), exit_code=UNAVAILABLE)
    assert "does not speak TLS" in words and "hint: the server speaks plain text" in words


def test_an_expired_certificate_is_refused(make_server, ca):
    server = make_server(*identity_flags(ca.issue("expired", days=-1))).start()
    assert "certificate has expired" in check(server, *trust(ca), exit_code=UNAVAILABLE)


def test_mutual_tls(mutual_server, ca, stranger):
    words = check(mutual_server, *trust(ca), exit_code=UNAVAILABLE)
    assert "asks for a client certificate" in words and "hint: give --tls-cert-file" in words
    cert, key = ca.issue("friend")
    own = ["--tls-cert-file", str(cert), "--tls-key-file", str(key)]
    check(mutual_server, *trust(ca), *own, exit_code=OK)
    bad_cert, bad_key = stranger.issue("nobody")
    assert "does not know the CA of our certificate" in check(
        mutual_server, *trust(ca), "--tls-cert-file", str(bad_cert), "--tls-key-file", str(bad_key),
        exit_code=UNAVAILABLE)
    assert "go together" in check(mutual_server, *trust(ca), "--tls-cert-file", str(cert), exit_code=UNAVAILABLE)
    with mutual_server.client(tls=millrace.Tls(ca.cert_file, cert, key)) as client:
        assert client.enqueue("q", b"x")
    with mutual_server.client(tls=millrace.Tls(ca.cert_file), timeout=5) as client, \
            pytest.raises(millrace.MillraceError):
        client.enqueue("q", b"x")


def test_http2_is_negotiated_and_a_must(tls_server, ca):
    host, port = tls_server.address.rsplit(":", 1)

    def try_alpn(*protocols: str) -> str:
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"{host}:{port}", "-CAfile", str(ca.cert_file),
             *(["-alpn", ",".join(protocols)] if protocols else [])],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=harness.PATIENCE)
        return done.stdout + done.stderr

    assert "ALPN protocol: h2" in try_alpn("http/1.1", "h2")
    assert "no application protocol" in try_alpn("http/1.1")
    assert "no application protocol" in try_alpn()


@pytest.mark.parametrize("by_signal", [False, True])
def test_new_certificates_are_used_without_a_restart(make_server, ca, tmp_path, by_signal):
    def issue(name: str) -> None:
        cert, key = ca.issue(name)
        key.replace(tmp_path / "server.key")
        cert.replace(tmp_path / "server.pem")

    issue("first")
    server = make_server(*identity_flags((tmp_path / "server.pem", tmp_path / "server.key"))).start()

    with server.client(tls=millrace.Tls(ca_file=ca.cert_file)) as old:
        old.enqueue("q", b"x")
        assert served_name(server) == "first"
        issue("second")
        if by_signal:
            server.send(signal.SIGHUP)
        harness.wait_until(lambda: served_name(server) == "second", "the new certificate is shown")
        # The old connection lives on.
        old.enqueue("q", b"x")
        if not by_signal:
            return
        (tmp_path / "server.pem").write_text("broken")
        server.send(signal.SIGHUP)
        harness.wait_until(lambda: "new certificates cannot be used" in server.log_text(), "the broken file is seen")
        assert served_name(server) == "second"
        old.enqueue("q", b"x")


def test_unusable_settings_stop_the_start(make_server, ca, tmp_path):
    cert, key = ca.issue("server")
    other_key = ca.issue("other")[1]
    with pytest.raises(harness.StartError, match="needs rpc.tls_key_file as well"):
        make_server("--rpc-tls-cert-file", str(cert)).start()
    with pytest.raises(harness.StartError, match="cannot use certificate file /nonexistent"):
        make_server(*identity_flags(("/nonexistent", key))).start()
    with pytest.raises(harness.StartError, match="key"):
        make_server(*identity_flags((cert, other_key))).start()


def test_grpcio_itself_gets_through(tls_server, ca):
    credentials = grpc.ssl_channel_credentials(ca.cert_file.read_bytes())
    with grpc.secure_channel(tls_server.address, credentials) as channel:
        check_health = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check_health(b"", timeout=harness.PATIENCE) == b"\x08\x01"
