"""Certificates of an authority of the tests' own."""

import subprocess
from pathlib import Path


class Authority:
    """It signs with its certificate at `path`."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self._home = home
        self.path = home / "ca.crt"
        self._key = home / "ca.key"
        _openssl("req", "-x509", *_NEW_KEY, "-subj", "/CN=tests", "-keyout", self._key, "-out", self.path)

    def issue(self, name: str, address: str, *hosts: str) -> tuple[Path, Path]:
        """Certificate and key (PKCS 8) for a server at the IP `address` and at the names `hosts`."""
        certificate, key, request = (self._home / f"{name}.{end}" for end in ("crt", "key", "csr"))
        names = ",".join([f"IP:{address}", *(f"DNS:{host}" for host in hosts)])
        subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        _openssl("req", *_NEW_KEY, *subject, "-keyout", key, "-out", request)
        signer = ("-CA", self.path, "-CAkey", self._key, "-CAcreateserial", "-copy_extensions", "copy")
        _openssl("x509", "-req", "-in", request, *signer, "-out", certificate)
        return certificate, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
