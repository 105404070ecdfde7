"""The certificates in the settings: a server's own, and those for calls to instances."""

import ssl
from pathlib import Path

from streamstate.deployment.connections import TlsSettings
from streamstate.web.access.certificates import CertificateFiles, Certificates, ToInstances


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
