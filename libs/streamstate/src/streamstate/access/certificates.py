"""Certificates in files, which are read again when they change: what a server shows, and what its callers show."""

import ssl
from pathlib import Path
from typing import NamedTuple

import structlog

from streamstate.access.watched_file import signature
from streamstate.errors import Misconfigured

log = structlog.get_logger()


class CertificateFiles(NamedTuple):
    """PEM files of a certificate, with its chain, and of its private key."""

    certificate: Path
    key: Path


class Certificates:
    """Contexts of TLS 1.2 and later over the files `pair` (None: no certificate is shown) and `ca`.

    A change that cannot be used, such as a certificate whose key is not there yet, is tried again at the next look.
    """

    def __init__(self, purpose: ssl.Purpose, pair: CertificateFiles | None, ca: Path | None) -> None:
        """Raises `Misconfigured` when a file cannot be used."""
        self._purpose = purpose
        self._pair = pair
        self._ca = ca
        self._reported = ""
        self._files = [path for path in (*(pair or ()), ca) if path]
        try:
            self._seen = self._signatures()
            self.context = self._made()
        except OSError as error:
            msg = f"{', '.join(map(str, self._files))} cannot be used: {error}"
            raise Misconfigured(msg) from error

    def reload(self) -> None:
        """Use what the files have now: a server for new connections on the same context, a client in another one."""
        try:
            signatures = self._signatures()
            if signatures == self._seen:
                return
            # What cannot be used shows here, before anything has changed.
            made = self._made()
            if self._purpose is ssl.Purpose.SERVER_AUTH:
                self.context = made
            else:
                self._load(self.context)
            self._seen, self._reported = signatures, ""
            log.info("changed certificates were read", files=[path.name for path in self._files])
        except OSError as error:
            if str(error) != self._reported:
                self._reported = str(error)
                log.error("changed certificates cannot be used; the last good ones stay", reason=self._reported)

    def _signatures(self) -> list[tuple[int, int, int]]:
        return [signature(path) for path in self._files]

    def _made(self) -> ssl.SSLContext:
        context = ssl.create_default_context(self._purpose, cafile=self._ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._ca and self._purpose is ssl.Purpose.CLIENT_AUTH:
            context.verify_mode = ssl.CERT_REQUIRED
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        if self._ca:
            context.load_verify_locations(self._ca)
        if self._pair:
            context.load_cert_chain(*self._pair)


class ToInstances(Certificates):
    """How instances are asked: they show a certificate of `ca` for `name`, or for their host where it is empty."""

    def __init__(self, pair: CertificateFiles | None, ca: Path, name: str) -> None:
        """Raises `Misconfigured` when a file cannot be used."""
        super().__init__(ssl.Purpose.SERVER_AUTH, pair, ca)
        self._name = name

    def for_host(self, host: str) -> tuple[ssl.SSLContext, str]:
        """The context of a new connection to `host`, and the name that its certificate must have."""
        self.reload()
        return self.context, self._name or host
