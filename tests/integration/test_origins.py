"""A state whose topics or folds are no more those that it was built from: the stream refuses to go on and says why."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from typer.testing import CliRunner

from devkit import records
from devkit.child_process import LOCALHOST, Child, free_port
from devkit.demo import CACHE
from devkit.local_cluster import LocalCluster, Plan, answers
from services.events import LISTENING_EVENTS
from services.topics.settings import KeptTopic, WindowIndex
from streamstate.cli.main import app
from streamstate.kafka.producer import producer, send_all
from streamstate.settings import PREFIX
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore, connect
from streamstate.state.store import Snapshot
from tests.integration.driving import eventually
from tests.serving import sample

USER = 7
SETTLED_S = 120
REFUSED_S = 60


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Kafka and Redis of their own, without services: tests set them back."""
    home, ports = tmp_path_factory.mktemp("origins"), (free_port(), free_port(), free_port())
    cluster = LocalCluster(Plan(home, Path.cwd() / CACHE, *ports), say=lambda _line: None)
    try:
        cluster.start_servers()
        yield cluster
    finally:
        cluster.stop()


class Deployment:
    """A service over a topic of its own, of one partition."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self.cluster = cluster
        self.name = self.topic = name
        self.admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap, "log_level": 0})
        self.store = RedisStore(connect(cluster.redis.url, 5.0), name)
        self.started: list[Child] = []

    def create(self) -> None:
        self.admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result()

    def delete(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result()
        eventually(lambda: self.topic not in self.admin.list_topics(timeout=5).topics, "the topic to be gone")

    def send(self, count: int) -> None:
        key, value = records.event(USER, 1, 1, 1, 1)
        send_all(producer(self.cluster.kafka.bootstrap), ((self.topic, key, value, []) for _ in range(count)))

    def stream(self, service: str = "metrics", **settings: str) -> "Stream":
        """A stream of `service` over the topic, started."""
        port = free_port()
        topics = {LISTENING_EVENTS: self.topic} if service == "metrics" else {}
        child = self.cluster.deployment(f"services.{service}", self.name, topics, STATUS_PORT=str(port), **settings)
        child.start()
        self.started.append(child)
        return Stream(child, port)

    def build(self) -> "Stream":
        """A stream that has folded the first hundred records."""
        self.send(100)
        stream = self.stream()
        self.folded(100)
        return stream

    def api(self, **settings: str) -> str:
        """The address of an API over the state."""
        address = f"{LOCALHOST}:{free_port()}"
        home = self.cluster.redis.log.parent
        child = LocalCluster.api("services.metrics", f"{self.name}-api", address, home, self.environment(**settings))
        child.start()
        self.started.append(child)
        child.wait_until(lambda: answers(f"http://{address}/livez"), 30)
        return address

    def command(self, command: str, *arguments: str) -> Any:
        """The JSON that `streamstate` prints of this deployment, alone where it is of several."""
        result = CliRunner().invoke(app, [command, "metrics", *arguments, "--json"], env=self.environment())
        answer = json.loads(result.stdout)
        return answer[0] if isinstance(answer, list) else answer

    def environment(self, **settings: str) -> dict[str, str]:
        values = {
            "KAFKA": self.cluster.kafka.bootstrap,
            "REDIS": self.cluster.redis.url,
            "NAME": self.name,
            "TOPICS": json.dumps({LISTENING_EVENTS: self.topic}),
            **settings,
        }
        return {PREFIX + name: value for name, value in values.items()}

    def snapshot(self) -> Snapshot:
        return self.store.read({0: [Fields(f"user:{USER}")]})[0]

    def position(self) -> int:
        return self.snapshot().positions.get(self.topic, 0)

    def folded(self, position: int) -> None:
        eventually(lambda: self.position() == position, f"the position {position}", SETTLED_S)


class Stream:
    """The stream process, seen through its status port."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.stop = child.stop
        self._url = f"http://{LOCALHOST}:{port}"

    def get(self, path: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request("GET", f"{self._url}{path}", timeout=5, retries=False)

    def refused(self, *parts: str) -> None:
        """The stream lives, and says in its log, its status and its metrics why it does not go on."""

        def reason() -> str:
            try:
                return str(self.get("/readyz").json().get("reasons", ""))
            except urllib3.exceptions.HTTPError:
                return ""

        eventually(lambda: parts[0] in reason(), f"a refusal since {parts[0]}", REFUSED_S)
        assert [part for part in parts if part not in reason() or part not in self.child.tail(200)] == []
        assert sample(self.get("/metrics").data.decode(), "streamstate_stream_refused") == 1
        assert self.get("/livez").status == 200
        time.sleep(1)
        assert self.child.alive


@pytest.fixture
def deployment(servers: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    deployment = Deployment(servers, request.node.name.replace("_", "-"))
    deployment.create()
    yield deployment
    for child in deployment.started:
        child.kill()


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(deployment: Deployment) -> None:
    """Else the first hundred of its records would be skipped without a word."""
    stream = deployment.build()
    stream.stop()
    deployment.delete()
    deployment.create()
    deployment.send(150)
    deployment.stream().refused("was deleted and made anew")
    fault = deployment.command("status")["faults"][0]
    assert "was deleted and made anew" in fault
    assert "`streamstate reset metrics`" in fault
    assert deployment.position() == 100
    deployment.command("reset", "--yes")
    deployment.folded(150)
    assert deployment.snapshot().values[0]["count"] == 150


def test_a_deployment_of_another_name_is_verified(deployment: Deployment) -> None:
    deployment.build()
    report = deployment.command("verify")
    assert (report["service"], report["records"], report["differences"]) == (deployment.name, 100, [])
    key = f"{{{deployment.name}:0}}:user:{USER}"
    with connect(deployment.cluster.redis.url, 5.0) as client:
        client.hincrby(key, "count", 1)
    assert [difference["place"] for difference in deployment.command("verify")["differences"]] == [key]


def test_partitions_that_are_added_while_it_runs_are_noticed(deployment: Deployment) -> None:
    """Else the keys that moved would begin again from nothing in their new partitions."""
    stream = deployment.build()
    deployment.admin.create_partitions([NewPartitions(deployment.topic, 2)])[deployment.topic].result()
    stream.refused("has 2 partitions and had 1")


def test_a_state_is_not_built_from_a_topic_without_its_beginning_unless_that_is_allowed(
    deployment: Deployment,
) -> None:
    """Else it would turn ready, with counts that lack the deleted records."""
    deployment.build().stop()
    for deleted in deployment.admin.delete_records([TopicPartition(deployment.topic, 0, 60)]).values():
        deleted.result()
    with connect(deployment.cluster.redis.url, 5.0) as client:
        client.flushall()

    refusing = deployment.stream()
    way_out = f"`streamstate allow SERVICE {deployment.topic} --reason TEXT`"
    refusing.refused(f"{deployment.topic}:0 begins at offset 60", way_out)
    assert deployment.position() == 0
    path, address = f"/v1/users/{USER}/metrics", deployment.api()
    answer = urllib3.request("GET", f"http://{address}{path}")
    assert answer.status == 503
    assert "begins at offset 60" in answer.json()["detail"]
    assert way_out in answer.json()["detail"]

    allowed = deployment.command("allow", deployment.topic, "--reason", "retention")
    assert allowed["before"] == {"0": 60}
    deployment.folded(100)
    assert deployment.command("status")["allowances"] == [
        f"{deployment.topic}:0 may lack the records before 60: retention"
    ]
    assert deployment.snapshot().values[0]["count"] == 40
    assert sample(refusing.get("/metrics").data.decode(), "streamstate_stream_refused") == 0
    answer = urllib3.request("GET", f"http://{address}{path}")
    assert (answer.status, answer.json()["eventCount"]) == (200, 40)
    assert answer.headers["State-Begin"] == f"{deployment.topic}:0=60"
    metrics = urllib3.request("GET", f"http://{address}/metrics").data.decode()
    assert sample(metrics, "streamstate_begin_offset", topic=deployment.topic, partition="0") == 60


def test_a_log_that_ends_before_the_state_is_refused(deployment: Deployment) -> None:
    """A broker that comes back with an older copy of its folder: else its new records would be skipped up to there."""
    deployment.build().stop()
    kafka = deployment.cluster.kafka
    data = kafka.log.parent / "data"
    copy = data.with_name("older")
    kafka.stop()
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy)
    kafka.start()
    deployment.send(50)
    stream = deployment.stream()
    deployment.folded(150)
    stream.stop()

    kafka.stop()
    shutil.rmtree(data)
    copy.rename(data)
    kafka.start()
    deployment.send(20)
    refusing = deployment.stream()
    refusing.refused(f"{deployment.topic}:0 ends at offset 120", "the state stands at 150", "STREAMSTATE_NAME")
    assert deployment.position() == 150


def test_a_release_that_folds_otherwise_is_refused_and_the_earlier_one_goes_on(deployment: Deployment) -> None:
    """Else windows of another advance would be mixed with those that are there."""

    def send(count: int) -> None:
        out = producer(deployment.cluster.kafka.bootstrap)
        for _ in range(count):
            out.produce(deployment.topic, b'{"amount": 1}', USER.to_bytes(8, "big"), timestamp=1_750_000_000_000)
        out.flush()

    def release(advance_ms: int) -> Stream:
        index = WindowIndex(field="amount", size_ms=3_600_000, advance_ms=advance_ms, retention_ms=7_200_000)
        kept = KeptTopic(topic=deployment.topic, key="long", value="json", latest=False, windows=index)
        return deployment.stream("topics", KEPT=f"[{kept.model_dump_json()}]")

    send(6)
    earlier = release(0)
    deployment.folded(6)
    earlier.stop()
    send(1)
    later = release(1_800_000)
    later.refused('"advance_ms":1800000', '"advance_ms":3600000', "STREAMSTATE_NAME")
    assert deployment.position() == 6
    later.stop()
    release(0)
    deployment.folded(7)
