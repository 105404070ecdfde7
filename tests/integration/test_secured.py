"""A stream and its API as a company runs them: encrypted, as users with the rights that the documents list, rotated."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
import urllib3
from confluent_kafka import Producer
from urllib3.exceptions import HTTPError

from devkit import topics
from devkit.cluster.local_cluster import LocalCluster, answers, variables
from devkit.demo import CACHE
from devkit.servers.child_process import LOCALHOST, Child, free_port
from devkit.servers.class_archive import ARCHIVE, shared_classes, spark_in
from services.clicks.model import APP, CLICKS_PER_REGION, UNKNOWN, USER_CLICKS, USER_REGIONS
from streamstate.app import App
from streamstate.deployment.connections import KafkaSettings
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.kafka.consumer_group import Held, Membership
from streamstate.kafka.producer import producer, send_all
from streamstate.kafka.reading import read_to_end
from streamstate.spark import jars
from streamstate.web.http.request import AGE
from tests import signer as signing
from tests.integration import company
from tests.integration.company import Company, Issuer
from tests.serving import sample
from tests.waiting import PATIENCE_S, REQUEST_S, pause, until, until_equal

SECRETS = ('pass"word\\-of-kafka', "another-word-of-kafka", "word-of-redis", "new-word-of-redis", "secret-of-a-client")
FIRST, SECOND, REDIS, REDIS_SECOND, OF_CLIENT = SECRETS
USERS = 40


@dataclass(frozen=True)
class Case:
    """A way to prove oneself to Kafka, and where the folds run."""

    name: str
    master: str = ""

    @property
    def app(self) -> App:
        return renamed(APP, self.name, {CLICKS_PER_REGION: f"{self.name}-per-region"})


SCRAM, CERTIFICATE, TOKEN = Case("scram"), Case("certificate", "local-cluster[2,1,1024]"), Case("token")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    home, issuer = tmp_path_factory.mktemp("company"), Issuer(TOKEN.name, OF_CLIENT)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.callback(issuer.stop)
        found = company.start(home, CACHE / "kafka", patch.setenv, issuer, stack)
        own = [
            topic for case in (SCRAM, CERTIFICATE, TOKEN) for topic in (f"{case.name}-per-region", f"{case.name}-dlq")
        ]
        topics.create(
            found.kafka.bootstrap, {topic: {} for topic in (USER_CLICKS, USER_REGIONS, company.DELETIONS, *own)}, 2
        )
        send(producer(found.kafka.bootstrap), b"1")
        yield found


def send(out: Producer, clicks: bytes) -> None:
    """A record for each user, and an invalid record."""
    for user in range(USERS):
        out.produce(USER_CLICKS, clicks, f"user-{user}".encode())
    out.produce(USER_CLICKS, b"none", b"user-0")
    out.flush()


def settings(case: Case, servers: Company, home: Path) -> dict[str, str]:
    """The settings shared by stream and API: every password is a file."""
    files = {"kafka": FIRST if case is SCRAM else OF_CLIENT, "redis": REDIS}
    for name, word in files.items():
        (home / name).write_text(f"{word}\n")
    certificate, key = (str(path) for path in servers.authority.issue(case.name, LOCALHOST))
    by_sasl = {"KAFKA": servers.sasl, "KAFKA_SECURITY": "SASL_SSL", "KAFKA_PASSWORD": str(home / "kafka")}
    proofs = {
        SCRAM: by_sasl | {
            "KAFKA_USERNAME": case.name,
            "KAFKA_PROPERTIES": '{"client.rack": "a", "socket.keepalive.enable": true}',
            "KAFKA_SOURCE_PROPERTIES": '{"client.rack": "a", "connections.max.idle.ms": 60000}',
        },
        CERTIFICATE: {
            "KAFKA": servers.ssl, "KAFKA_SECURITY": "SSL", "KAFKA_CERTIFICATE": certificate, "KAFKA_KEY": key
        },
        TOKEN: by_sasl | {
            "KAFKA_USERNAME": case.name,
            "KAFKA_MECHANISM": "OAUTHBEARER",
            "KAFKA_TOKEN_URL": f"{servers.issuer.url}/token",
            "KAFKA_SCOPE": "kafka",
        },
    }  # fmt: skip
    redis = {
        "REDIS": servers.redis_url,
        "REDIS_USERNAME": case.name,
        "REDIS_PASSWORD": str(home / "redis"),
        "REDIS_CA": str(servers.authority.path),
        "REDIS_CERTIFICATE": certificate,
        "REDIS_KEY": key,
    }
    own = {"NAME": case.name, "TOPICS": json.dumps({CLICKS_PER_REGION: f"{case.name}-per-region"})}
    return {**proofs[case], **redis, **own, "KAFKA_CA": str(servers.authority.path)}


@dataclass(frozen=True)
class Running:
    """A stream, the port of its status, the API beside it, and the folder for Spark's files."""

    case: Case
    stream: Child
    status: int
    api: Child
    address: str
    scratch: Path

    def clicks(self) -> int:
        try:
            answer = urllib3.request(
                "GET", f"http://{self.address}/v1/regions/{UNKNOWN}", timeout=REQUEST_S, retries=False
            )
            return int(answer.json().get("clicks", 0)) if answer.headers.get(AGE) else 0
        except HTTPError:
            return 0

    def metric(self, name: str) -> float | None:
        text = urllib3.request("GET", f"http://{LOCALHOST}:{self.status}/metrics", timeout=REQUEST_S).data.decode()
        return sample(text, name, service=self.case.name, partition="0")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A shorter path than that of `tmp_path`: Spark has a socket in it, whose path has 107 characters at most."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(params=[SCRAM, CERTIFICATE, TOKEN], ids=lambda case: case.name)
def running(request: pytest.FixtureRequest, servers: Company, tmp_path: Path, scratch: Path) -> Iterator[Running]:
    case: Case = request.param
    jars.fetch(CACHE / "spark")
    servers.grant(case.app, f"User:CN={case.name}" if case is CERTIFICATE else f"User:{case.name}")
    servers.set_password(case.name, FIRST)
    servers.tell_redis(f"ACL SETUSER {case.name} on >{REDIS}")
    status, address = free_port(), f"{LOCALHOST}:{free_port()}"
    common = {**settings(case, servers, tmp_path), "ADVERTISE": address}
    own = {
        "JARS": str(CACHE.absolute() / "spark"),
        "CHECKPOINTS": str(tmp_path / "checkpoints"),
        "MASTER": case.master,
        "DRIVER_MEMORY": "512m",
        "SPARK": shared_classes(CACHE.absolute() / ARCHIVE, spark_in(scratch)),
        "STATUS_PORT": str(status),
    }
    argv = [sys.executable, "-m", "streamstate.spark", "services.clicks"]
    stream = Child("stream", argv, tmp_path / "stream.log", variables(common | own) | {"PYTHONPATH": python_path()})
    api = LocalCluster.api("services.clicks", "api", address, tmp_path, common)
    stream.start()
    api.start()
    try:
        stream.wait_until(lambda: answers(f"http://{LOCALHOST}:{status}/readyz"), PATIENCE_S)
        yield Running(case, stream, status, api, address, scratch)
    finally:
        api.stop()
        stream.stop()


def python_path() -> str:
    """Spark's executors have another working directory."""
    return ":".join(str(Path(path).absolute()) for path in sys.path if path)


def test_it_folds_what_it_may_read_and_ends_when_it_is_told(running: Running, servers: Company, tmp_path: Path) -> None:
    until(lambda: running.clicks() >= USERS, "all clicks to be counted and their age to be known")
    until_equal(lambda: running.metric("streamstate_stream_lag"), 0, "the lag to be told")
    process = psutil.Process(running.stream.pid)
    if running.case is SCRAM:
        rotate(running, servers, tmp_path)
    lines, listening = looked_at([process, *process.children(recursive=True)])
    assert not any("spark.authenticate.secret=" in line for line in lines)
    assert running.case.master or listening == {LOCALHOST}
    assert folders(running.scratch)
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    assert running.case.master or folders(running.scratch) == []
    texts = [*lines, *(path.read_text() for path in tmp_path.glob("*.log"))]
    assert [word for word in SECRETS if any(word in text for text in texts)] == []


# Tokens signed with the credentials of AWS, by a package with the interface of the signer's.

SIGNER = """
import os, time
import urllib3

calls = []

class MSKAuthTokenProvider:
    @staticmethod
    def generate_auth_token(region):
        calls.append(region)
        login = urllib3.make_headers(basic_auth=os.environ["SIGNER_LOGIN"])
        answer = urllib3.request("POST", os.environ["SIGNER_URL"], headers=login).json()
        return answer["access_token"], int(time.time() * 1_000) + 4_000
"""


@pytest.fixture
def signer(tmp_path: Path) -> Iterator[None]:
    with signing.installed(SIGNER, tmp_path):
        yield


@pytest.mark.usefixtures("signer")
def test_every_client_logs_in_by_tokens_of_the_signer_and_renews_them(
    servers: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers of MSK take such tokens by OAUTHBEARER, as this broker does."""
    monkeypatch.setenv("SIGNER_URL", f"{servers.issuer.url}/token")
    monkeypatch.setenv("SIGNER_LOGIN", f"{TOKEN.name}:{OF_CLIENT}")
    servers.grant(TOKEN.app, f"User:{TOKEN.name}")
    given = {
        "kafka": servers.sasl,
        "kafka_security": "SASL_SSL",
        "kafka_mechanism": "AWS_MSK_IAM",
        "kafka_region": "eu-central-1",
        "kafka_ca": servers.authority.path,
        "kafka_properties": {"client.rack": "a"},
    }
    settings = KafkaSettings.model_validate(given)
    kafka, security, place = settings.kafka, settings.security, (USER_CLICKS, 0)
    held: list[Held] = []
    member = Membership(kafka, TOKEN.app.group, "stream-0", 10_000, held.append, security)
    member.start(USER_CLICKS)
    try:
        [end] = Topics(kafka, security=security).ends([place]).values()
        assert len([*read_to_end(kafka, {place: 0}, security)]) == end > 0
        assert send_all(producer(kafka, security), [(TOKEN.app.dead_letters, None, b"a letter", [])]) == 1
        until(lambda: bool(held and held[-1]), "the group to assign partitions")
        calls = import_module(signing.MODULE).calls
        before = len(calls)
        until(lambda: len(calls) > before, "a token to be renewed")
        assert set(calls) == {"eu-central-1"}
    finally:
        member.stop()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"linger.ms": 5}, "Java's consumer has no property linger.ms"),
        ({"fetch.min.bytes": "many"}, "Invalid value many for configuration fetch.min"),
    ],
)
def test_a_property_that_java_does_not_take_ends_the_stream_at_its_start(
    servers: Company, given: dict[str, str], reason: str, tmp_path: Path
) -> None:
    own = {"KAFKA": servers.kafka.bootstrap, "JARS": str(CACHE.absolute() / "spark"), "DRIVER_MEMORY": "512m"}
    classes = shared_classes(CACHE.absolute() / ARCHIVE, "{}")
    properties = {"KAFKA_SOURCE_PROPERTIES": json.dumps(given)}
    settings = {**own, "CHECKPOINTS": str(tmp_path), "SPARK": classes, **properties}
    argv = [sys.executable, "-m", "streamstate.spark", "services.clicks"]
    ended = subprocess.run(argv, env=os.environ | variables(settings), capture_output=True, text=True, check=False)
    assert (ended.returncode, f"STREAMSTATE_KAFKA_SOURCE_PROPERTIES: {reason}" in ended.stderr) == (3, True)
    assert "Traceback" not in ended.stderr


def folders(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir()]


def looked_at(processes: list[psutil.Process]) -> tuple[list[str], set[str]]:
    """The command lines of running processes, and the addresses of Spark's listening sockets."""
    lines: list[str] = []
    listening: set[str] = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            lines.append(" ".join(process.cmdline()))
            if process.name() == "java":
                found = process.net_connections()
                listening |= {at.laddr.ip.removeprefix("::ffff:") for at in found if at.status == psutil.CONN_LISTEN}
    return lines, listening


def rotate(running: Running, servers: Company, home: Path) -> None:
    """The passwords of Kafka and Redis change, and connections are cut: the same processes go on with the new ones."""

    def runs() -> int:
        return running.stream.log.read_text().count('"event": "folding"')

    started = runs()
    pids, before = (running.stream.pid, running.api.pid), running.clicks()
    servers.tell_redis(f"ACL SETUSER {running.case.name} >{REDIS_SECOND}")
    (home / "redis").write_text(REDIS_SECOND)
    servers.tell_redis(f"ACL SETUSER {running.case.name} <{REDIS}")
    servers.set_password(running.case.name, SECOND)
    (home / "kafka").write_text(SECOND)
    until(lambda: runs() > started, "the stream to fold with the new password")
    servers.tell_redis(f"CLIENT KILL USER {running.case.name}")
    # Kafka has no connection by the former password any more.
    pause(2 * company.REAUTH_S)
    send(producer(servers.kafka.bootstrap), b"2")
    until(lambda: running.clicks() == before + 2 * USERS, "the clicks after the rotation to be counted once")
    assert (running.stream.pid, running.api.pid) == pids
    assert running.stream.alive
    assert running.api.alive
