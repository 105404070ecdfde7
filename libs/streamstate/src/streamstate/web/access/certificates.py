"""Certificates of a server, of its callers and of calls to instances, in files read again after a change."""

import ssl
from pathlib import Path
from typing import NamedTuple

from streamstate.deployment.connections import TlsSettings
from streamstate.web.access.watched_file import WatchedFiles


class CertificateFiles(NamedTuple):
    """PEM files of a certificate, with its chain, and of its private key."""

    certificate: Path
    key: Path


class Certificates(WatchedFiles[ssl.SSLContext]):
    """A context of TLS 1.2 and later over the files `pair` (None: no certificate is shown) and `ca`.

    New connections use `content`. A certificate without its key is tried again at the next check.
    """

    def __init__(self, purpose: ssl.Purpose, pair: CertificateFiles | None, ca: Path | None) -> None:
        """Raises `Misconfigured` when a file cannot be used."""

        def context() -> ssl.SSLContext:
            made = ssl.create_default_context(purpose, cafile=ca)
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            if ca:
                made.verify_mode = ssl.CERT_REQUIRED
            if pair:
                made.load_cert_chain(*pair)
            return made

        super().__init__([path for path in (*(pair or ()), ca) if path], context)


class ToInstances(Certificates):
    """TLS to instances: an instance shows a certificate of `ca` for `name`, or for its host when `name` is empty."""

    def __init__(self, pair: CertificateFiles | None, ca: Path, name: str) -> None:
        """Raises `Misconfigured` when a file cannot be used."""
        super().__init__(ssl.Purpose.SERVER_AUTH, pair, ca)
        self._name = name

    def for_host(self, host: str) -> tuple[ssl.SSLContext, str]:
        """The context of a new connection to `host`, and the required name of its certificate."""
        return self.content, self._name or host


def shown(settings: TlsSettings) -> Certificates | None:
    """A server's own certificates; None for plain HTTP. Raises `Misconfigured`."""
    pair = _pair(settings.tls_certificate, settings.tls_key)
    return Certificates(ssl.Purpose.CLIENT_AUTH, pair, settings.tls_client_ca) if pair else None


def to_instances(settings: TlsSettings) -> ToInstances | None:
    """How instances are asked; None for plain HTTP. Raises `Misconfigured`."""
    pair = _pair(settings.instances_certificate, settings.instances_key)
    return ToInstances(pair, settings.instances_ca, settings.instances_name) if settings.instances_ca else None


def _pair(certificate: Path | None, key: Path | None) -> CertificateFiles | None:
    return CertificateFiles(certificate, key) if certificate and key else None
