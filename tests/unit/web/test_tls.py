"""TLS between gateway and instances: who shows no certificate is not answered, and files are read when they change."""

import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.repeating import repeating
from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.deployment.connections import HttpSettings
from streamstate.errors import Misconfigured
from streamstate.web.access.certificates import CertificateFiles, ToInstances
from streamstate.web.process import GunicornServer
from strictasgi.client import Answer, ConnectionPool
from tests.certificates import Authority
from tests.serving import Loop
from tests.unit.web.process import KNOWN, answer, request
from tests.waiting import PATIENCE_S, until, until_equal


@dataclass
class Place:
    """The files of a side, and the authority of its certificates."""

    home: Path
    authority: Authority

    @property
    def pair(self) -> CertificateFiles:
        return CertificateFiles(self.home / "tls.crt", self.home / "tls.key")

    def renew(self, name: str) -> None:
        """Another certificate, put in place as Kubernetes changes a Secret: a new file under the old name."""
        for issued, path in zip(self.authority.issue(name, LOCALHOST), self.pair, strict=True):
            shutil.copy(issued, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture
def places(tmp_path: Path, authority: Authority) -> tuple[Place, Place]:
    """Those of a server and of its client, with a certificate each."""
    for name in ("server", "client"):
        (tmp_path / name).mkdir()
    server, client = Place(tmp_path / "server", authority), Place(tmp_path / "client", authority)
    server.renew("server-1")
    client.renew("client-1")
    return server, client


@pytest.fixture
def served(places: tuple[Place, Place], authority: Authority, tmp_path: Path) -> Iterator[tuple[Child, str, str]]:
    """The process of an API behind TLS, and where it answers, and to probes."""
    address, probes = f"{LOCALHOST}:{free_port()}", free_port()
    certificate, key = places[0].pair
    settings = {
        "ADVERTISE": address,
        "PROBE_PORT": str(probes),
        "TLS_CERTIFICATE": str(certificate),
        "TLS_KEY": str(key),
        "TLS_CLIENT_CA": str(authority.path),
    }
    child = LocalCluster.api("tests.unit.web", "api", address, tmp_path, settings)
    child.start()
    child.wait_until(lambda: answers(f"http://{LOCALHOST}:{probes}/livez"), timeout=PATIENCE_S)
    yield child, address, f"{LOCALHOST}:{probes}"
    child.stop()


def asked(loop: Loop, tls: ToInstances | None, address: str) -> int | None:
    """The status of an answer on a new connection, None when there is none."""

    async def get() -> int | None:
        connections = ConnectionPool(Answer, tls=tls.for_host if tls else None)
        try:
            return (await connections.ask(address, KNOWN, {})).status
        except OSError:
            return None
        finally:
            connections.close()

    return loop.run(get())


def serial(address: str, pair: CertificateFiles, authority: Authority) -> bytes:
    """The certificate that a server shows to a new connection."""
    context = ssl.create_default_context(cafile=authority.path)
    context.load_cert_chain(*pair)
    host, _, port = address.partition(":")
    plain = socket.create_connection((host, int(port)), 5)
    with context.wrap_socket(plain, server_hostname=host) as secured:
        return secured.getpeercert(binary_form=True) or b""


def test_only_who_shows_a_certificate_is_answered(
    served: tuple[Child, str, str], places: tuple[Place, Place], authority: Authority, loop: Loop, tmp_path: Path
) -> None:
    _, address, probes = served
    mutual = ToInstances(places[1].pair, authority.path, "")
    until_equal(lambda: asked(loop, mutual, address), 200)
    other = Authority(tmp_path / "other")
    stranger = CertificateFiles(*other.issue("stranger", LOCALHOST))
    assert asked(loop, ToInstances(None, authority.path, ""), address) is None
    assert asked(loop, ToInstances(stranger, authority.path, ""), address) is None
    assert asked(loop, ToInstances(places[1].pair, other.path, ""), address) is None
    assert asked(loop, ToInstances(places[1].pair, authority.path, "elsewhere"), address) is None
    assert asked(loop, None, address) is None
    with suppress(OSError):
        # Plain HTTP gets no answer at all.
        assert answer(address, request(KNOWN)) is None
    assert asked(loop, mutual, address) == 200
    assert answer(probes, request("/readyz"))[0].status == 200


def test_changed_certificates_are_used_without_a_restart(
    served: tuple[Child, str, str], places: tuple[Place, Place], authority: Authority, loop: Loop
) -> None:
    child, address, _ = served
    server, client = places
    mutual = ToInstances(client.pair, authority.path, "")
    before, pid = serial(address, client.pair, authority), child.pid
    assert before == ssl.PEM_cert_to_DER_cert(server.pair.certificate.read_text())
    # With a key of another certificate, the last valid files stay.
    key = server.pair.key.read_bytes()
    server.pair.key.write_bytes(client.pair.key.read_bytes())

    def reported() -> bool:
        assert serial(address, client.pair, authority) == before
        return "a changed file cannot be used" in child.log.read_text()

    until(reported)
    server.pair.key.write_bytes(key)
    with repeating(lambda: asked(loop, mutual, address)) as found:
        server.renew("server-2")
        client.renew("client-2")
        renewed = ssl.PEM_cert_to_DER_cert(server.pair.certificate.read_text())
        until(lambda: serial(address, client.pair, authority) == renewed != before)
        seen = len(found)
        until(lambda: len(found) > seen + 10)
    assert set(found) == {200}
    assert (child.pid, child.alive) == (pid, True)
    assert "Traceback" not in child.log.read_text()


def test_files_that_cannot_be_used_end_the_process_with_their_names(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("no PEM")
    files = {"tls_certificate": tmp_path / "tls.crt", "tls_key": tmp_path / "tls.key"}
    settings = HttpSettings.model_validate(files)
    with pytest.raises(Misconfigured, match=r"tls\.crt.*tls\.key cannot be used"):
        GunicornServer(settings, lambda: None)  # type: ignore[arg-type, return-value]
