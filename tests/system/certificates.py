"""Certificates made on the spot, with the openssl command."""

from __future__ import annotations

import os
import pathlib
import subprocess


def _openssl(*arguments: str, **options) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, **options)


class Authority:
    """A certificate authority with a folder for its files."""

    def __init__(self, folder: pathlib.Path, name: str = "Test CA"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.key_file, self.cert_file = folder / "ca.key", folder / "ca.pem"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/CN={name}", "-keyout", str(self.key_file), "-out", str(self.cert_file))

    def issue(self, name: str, *, alternative_names: str = "DNS:localhost,IP:127.0.0.1", days: int = 1,
              folder: pathlib.Path | None = None) -> tuple[pathlib.Path, pathlib.Path]:
        """Certificate and key files, `name.pem` and `name.key`, replaced at once if they exist. Days may be negative."""
        folder = folder or self.folder
        cert, key, request = folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.csr"
        extensions = folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative_names}\nbasicConstraints=CA:FALSE\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", f"{key}.new", "-out", str(request))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.cert_file), "-CAkey", str(self.key_file),
                 "-CAcreateserial", "-days", str(days), "-extfile", str(extensions), "-out", f"{cert}.new")
        os.replace(f"{key}.new", key)
        os.replace(f"{cert}.new", cert)
        return cert, key
