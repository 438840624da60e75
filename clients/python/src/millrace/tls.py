"""How a client speaks TLS."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Mapping

import grpc


@dataclass(frozen=True)
class Tls:
    """Whom to trust and who to be. Files are PEM and read when a Client is made.

    `ca_file`: who may sign the server's certificate; None = gRPC's own roots. `cert_file` with `key_file`: the client's
    certificate, for servers that ask for one. `server_name`: whom the server's certificate must be for, instead of the
    address's host.
    """

    ca_file: str | os.PathLike[str] | None = None
    cert_file: str | os.PathLike[str] | None = None
    key_file: str | os.PathLike[str] | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Tls | None:
        """What MILLRACE_TLS, MILLRACE_TLS_CA_FILE, _CERT_FILE, _KEY_FILE and _SERVER_NAME say, as for the CLI; None
        when none of them asks for TLS."""
        values = {name: environment.get(f"MILLRACE_TLS_{name.upper()}") or None
                  for name in ("ca_file", "cert_file", "key_file", "server_name")}
        wanted = environment.get("MILLRACE_TLS", "").lower() in ("true", "yes", "on", "1")
        return Tls(**values) if wanted or any(values.values()) else None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(_read(self.ca_file), _read(self.key_file), _read(self.cert_file))

    def options(self) -> list[tuple[str, Any]]:
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []


def _read(file: str | os.PathLike[str] | None) -> bytes | None:
    return None if file is None else pathlib.Path(file).read_bytes()
