"""A stream as a company runs it: Kafka behind SASL_SSL, folds in Spark's executors, told to end by SIGTERM."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil
import pytest
import urllib3
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from urllib3.exceptions import HTTPError

from devkit import sample_events, topics
from devkit.child_process import LOCALHOST, Child, free_port
from devkit.demo import CACHE
from devkit.feed import send_events
from devkit.kafka_server import Kafka
from devkit.redis_server import Redis
from services.events import LISTENING_EVENTS
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer
from streamstate.kafka.security import Security
from streamstate.settings import PREFIX
from streamstate.spark import jars
from streamstate.state.redis import RedisStore, connect
from tests.certificates import Authority
from tests.integration.driving import eventually
from tests.serving import sample

EVENTS = 2_000
USER, PASSWORD = "metrics", 'pass"word\\'
SECURED = """
listeners=PLAINTEXT://{{host}}:{{port}},CONTROLLER://{{host}}:{{controller}},SASL_SSL://{{host}}:{port}
advertised.listeners=PLAINTEXT://{{host}}:{{port}},SASL_SSL://{{host}}:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
"""


@dataclass(frozen=True)
class Company:
    """Its Kafka as outsiders see it, and what they must show."""

    bootstrap: str
    security: Security
    ca: Path


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """A Kafka that knows one user, with topics and events."""
    home = tmp_path_factory.mktemp("secured")
    authority, port = Authority(home / "ca"), free_port()
    keystore = home / "keystore.pem"
    keystore.write_text("".join(path.read_text() for path in reversed(authority.issue("kafka", LOCALHOST))))
    kafka = Kafka(home / "kafka", free_port(), CACHE / "kafka", SECURED.format(port=port, keystore=keystore))
    kafka.start()
    try:
        topics.create(kafka.bootstrap, topics.configurations())
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        known = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        admin.alter_user_scram_credentials([known])[USER].result()
        security = Security("SASL_SSL", username=USER, password=PASSWORD, ca=authority.path.read_text())
        found = Company(f"{LOCALHOST}:{port}", security, authority.path)
        events = sample_events.events(sample_events.Catalogue.make(1), 1, 50, lambda: 1_750_000_000_000)
        send_events(producer(found.bootstrap, security), islice(events, EVENTS))
        yield found
    finally:
        kafka.stop()


@pytest.fixture(params=["", "local-cluster[2,1,1024]"], ids=["in the process", "in executors"])
def stream(
    request: pytest.FixtureRequest, company: Company, redis_server: Redis, tmp_path: Path
) -> Iterator[tuple[Child, int]]:
    """The stream of metrics as its image starts it, and the port of its status. Each run under a name of its own."""
    jars.fetch(CACHE / "spark")
    status = free_port()
    settings = {
        "KAFKA": company.bootstrap,
        "KAFKA_SECURITY": "SASL_SSL",
        "KAFKA_USERNAME": USER,
        "KAFKA_PASSWORD": PASSWORD,
        "KAFKA_CA": str(company.ca),
        "REDIS": redis_server.url,
        "NAME": _name(request.param),
        "JARS": str(CACHE.absolute() / "spark"),
        "CHECKPOINTS": str(tmp_path / "checkpoints"),
        "MASTER": request.param,
        "DRIVER_MEMORY": "512m",
        "STATUS_PORT": str(status),
    }
    environment = {PREFIX + name: value for name, value in settings.items()} | {"PYTHONPATH": str(Path.cwd())}
    argv = [sys.executable, "-m", "streamstate.spark", "services.metrics"]
    child = Child("stream", argv, tmp_path / "stream.log", environment)
    child.start()
    try:
        child.wait_until(lambda: answers(status, "/readyz"), 90)
        yield child, status
    finally:
        child.stop()


def _name(master: str) -> str:
    return "metrics-executors" if master else "metrics-local"


def answers(port: int, path: str) -> bool:
    try:
        return urllib3.request("GET", f"http://{LOCALHOST}:{port}{path}", timeout=5, retries=False).status == 200
    except HTTPError:
        return False


def test_it_folds_what_it_may_read_and_ends_when_it_is_told(
    stream: tuple[Child, int], company: Company, redis_server: Redis, request: pytest.FixtureRequest
) -> None:
    child, status = stream
    name = _name(request.node.callspec.params["stream"])
    store = RedisStore(connect(redis_server.url, 5.0), name)
    partitions = range(Topics(company.bootstrap, security=company.security).partitions(LISTENING_EVENTS))

    def counted() -> int:
        return sum(one.positions.get(LISTENING_EVENTS, 0) for one in store.read({p: [] for p in partitions}).values())

    eventually(lambda: counted() == EVENTS, "all events to be counted", 60)
    assert answers(status, "/livez")

    def lag() -> float | None:
        text = urllib3.request("GET", f"http://{LOCALHOST}:{status}/metrics", timeout=5).data.decode()
        return sample(text, "streamstate_stream_lag", service=name, partition="0")

    eventually(lambda: lag() == 0, "the lag to be told")
    process = psutil.Process(child.pid)
    process.terminate()
    assert process.wait(15) == 0
