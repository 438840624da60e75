import pytest

from millrace import Client, Tls
from millrace.work import main


def test_the_environment_says_what_the_cli_understands_too():
    assert Tls.from_environment({}) is None
    assert Tls.from_environment({"MILLRACE_TLS": "false"}) is None
    assert Tls.from_environment({"MILLRACE_TLS": "true"}) == Tls()
    assert Tls.from_environment({"MILLRACE_TLS_CA_FILE": "ca.pem", "MILLRACE_TLS_SERVER_NAME": "a"}) == Tls(
        ca_file="ca.pem", server_name="a")


def test_half_an_identity_is_an_error():
    with pytest.raises(ValueError, match="go together"):
        Tls(cert_file="a.pem")
    with pytest.raises(ValueError, match="go together"):
        Tls.from_environment({"MILLRACE_TLS_KEY_FILE": "a.key"})


def test_a_missing_file_is_said_at_once(capsys):
    with pytest.raises(FileNotFoundError):
        Client(tls=Tls(ca_file="/nonexistent/ca.pem"))
    assert main(["queue", "os.path:basename", "--tls-ca-file", "/nonexistent/ca.pem"]) == 2
    assert "/nonexistent/ca.pem" in capsys.readouterr().err


def test_tls_and_credentials_exclude_each_other():
    with pytest.raises(ValueError, match="exclude"):
        Client(tls=True, credentials=Tls().credentials())
