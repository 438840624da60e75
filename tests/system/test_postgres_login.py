"""TLS and passwords towards PostgreSQL: whatever libpq's users expect to work works, and what goes wrong is said."""

import os
import subprocess

import pytest

import certificates
import harness
import postgres
from harness import wait_until

PASSWORD = "correct horse"
ACCESS = "hostssl all app 127.0.0.1/32 scram-sha-256\nhost all app 127.0.0.1/32 reject\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return certificates.Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory):
    return certificates.Authority(tmp_path_factory.mktemp("other_ca"), "Other CA")


@pytest.fixture(scope="module")
def database(authority):
    """Takes the user `app` by TLS and password only. Its certificate is for localhost."""
    server = postgres.Postgres()
    try:
        server.sql(f"SET password_encryption = 'scram-sha-256'; CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
        server.listen(*authority.issue("database"), ACCESS)
        server.sql("CREATE DATABASE queues OWNER app")
        yield server
    finally:
        server.close()


@pytest.fixture
def run(binary, tmp_path, monkeypatch):
    """Runs `millrace store migrate` with this connection string and environment."""
    # What the machine's user has set up for himself is not part of the test.
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(url, **environment):
        return subprocess.run([str(binary), "store", "migrate", *([f"--postgres-url={url}"] if url is not None else [])],
                              capture_output=True, text=True, env={**harness.clean_environment(), **environment},
                              timeout=harness.PATIENCE)

    return run


def pairs(database, authority, **changes):
    settings = {"host": "localhost", "port": database.port, "dbname": "queues", "user": "app", "sslmode": "verify-full",
                "sslrootcert": authority.cert_file, "password": f"'{PASSWORD}'", **changes}
    return " ".join(f"{name}={value}" for name, value in settings.items() if value is not None)


def uri(database, authority, password=":correct%20horse"):
    return (f"postgresql://app{password}@localhost:{database.port}/queues?sslmode=verify-full"
            f"&sslrootcert={authority.cert_file}")


def password_file(folder, mode=0o600):
    path = folder / "passwords"
    path.write_text(f"localhost:*:*:other:wrong\nlocalhost:*:queues:app:{PASSWORD}\n")
    path.chmod(mode)
    return str(path)


def test_the_password_in_a_uri_or_in_pairs(run, database, authority):
    for url in (uri(database, authority), pairs(database, authority)):
        done = run(url)
        assert done.returncode == 0, done.stderr


def test_the_password_from_a_file_or_the_environment(run, database, authority, tmp_path):
    url = uri(database, authority, password="")
    for environment in ({"PGPASSFILE": password_file(tmp_path)}, {"PGPASSWORD": PASSWORD}):
        done = run(url, **environment)
        assert done.returncode == 0, done.stderr
    # libpq takes no file that others may read.
    refused = run(url, PGPASSFILE=password_file(tmp_path, 0o644))
    assert refused.returncode != 0 and "no password supplied" in refused.stderr, refused
    assert "permissions" in refused.stderr, refused


def test_everything_from_a_service_file(run, database, authority, tmp_path):
    services = tmp_path / "services.conf"
    lines = [f"{name}={value}" for name, value in (("host", "localhost"), ("port", database.port), ("dbname", "queues"),
             ("user", "app"), ("sslmode", "verify-full"), ("sslrootcert", authority.cert_file), ("password", PASSWORD))]
    services.write_text("[tasks]\n" + "\n".join(lines) + "\n")
    for url, environment in (("service=tasks", {}), ("postgresql://?service=tasks", {}), (None, {"PGSERVICE": "tasks"})):
        done = run(url, PGSERVICEFILE=str(services), **environment)
        assert done.returncode == 0, done.stderr
    unknown = run("service=nobody", PGSERVICEFILE=str(services))
    assert unknown.returncode != 0 and 'definition of service "nobody" not found' in unknown.stderr, unknown


def test_everything_from_the_environment(run, database, authority):
    done = run(None, PGHOST="localhost", PGPORT=str(database.port), PGDATABASE="queues", PGUSER="app", PGPASSWORD=PASSWORD,
               PGSSLMODE="verify-full", PGSSLROOTCERT=str(authority.cert_file))
    assert done.returncode == 0, done.stderr


def test_what_is_wrong_is_said(run, database, authority, other_authority, tmp_path):
    absent = tmp_path / "absent.pem"
    cases = [
        (pairs(database, authority, password="guess"), "password authentication failed for user \"app\""),
        (pairs(database, authority, password=None), "no password supplied"),
        (pairs(database, other_authority), "certificate verify failed"),
        (pairs(database, authority, host="127.0.0.2", hostaddr="127.0.0.1"), "does not match host name"),
        (pairs(database, authority, sslrootcert=absent), str(absent)),
        (pairs(database, authority, sslmode="disable"), "rejects connection"),
        (pairs(database, authority, user="nobody"), "no pg_hba.conf entry"),
        (pairs(database, authority, dbname="elsewhere"), "database \"elsewhere\" does not exist"),
        (pairs(database, authority, sslmode="always"), "invalid sslmode value"),
        ("hots=localhost", "invalid connection option"),
    ]
    for url, expected in cases:
        refused = run(url)
        assert refused.returncode != 0 and expected in refused.stderr, (url, refused)
        assert PASSWORD not in refused.stderr and "guess" not in refused.stderr, refused


def test_a_server_uses_tls_and_is_told_when_it_is_locked_out(binary, authority, other_authority, tmp_path):
    database = postgres.Postgres()
    server = None
    try:
        database.sql(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
        database.listen(*authority.issue("database"), ACCESS)
        database.sql("CREATE DATABASE queues OWNER app")
        url = pairs(database, authority, password=None)
        environment = {"PGPASSWORD": PASSWORD}
        migrated = subprocess.run([str(binary), "store", "migrate", f"--postgres-url={url}"], check=True,
                                  env={**harness.clean_environment(), **environment}, timeout=harness.PATIENCE)
        assert migrated.returncode == 0
        server = harness.Server(tmp_path / "server", "--store-kind=postgres", f"--postgres-url={url}", binary=binary,
                                environment=environment).start()
        with server.client() as client:
            client.enqueue("q", b"before")
        sessions = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'millrace'"
        assert database.sql(f"SELECT bool_and(ssl) {sessions}") == "t"

        def locked_out(why):
            status, text = server.http("/readyz")
            return status != 200 and why in text

        def end_sessions():
            database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'millrace'")

        # The password is changed behind its back, and changed back.
        database.sql("ALTER ROLE app PASSWORD 'another'")
        end_sessions()
        wait_until(lambda: locked_out("password authentication failed"), "readiness tells of the password")
        database.sql(f"ALTER ROLE app PASSWORD '{PASSWORD}'")
        wait_until(lambda: server.http("/readyz")[0] == 200, "it is ready again")
        # Somebody else answers in the database's place.
        port = database.port
        database.stop()
        database.use_certificate(*other_authority.issue("database"))
        database.start()
        assert database.port == port
        wait_until(lambda: locked_out("certificate verify failed"), "readiness tells of the certificate")
        database.stop()
        database.use_certificate(*authority.issue("database"))
        database.start()
        wait_until(lambda: server.http("/readyz")[0] == 200, "it is ready again")
        with server.client() as client:
            client.enqueue("q", b"after")
            assert client.describe("q").counts.accepted == 2
        assert PASSWORD not in server.log_text()
    finally:
        if server is not None:
            server.close()
        database.close()
