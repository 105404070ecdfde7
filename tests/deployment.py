"""A deployment of a service over a topic of its own: its stream, its API, its state, and what is done to the topic."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

import urllib3
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from typer.testing import CliRunner, Result

from devkit.cluster.local_cluster import LocalCluster, answers, variables
from devkit.events import records
from devkit.servers.child_process import LOCALHOST, Child, free_port
from devkit.topics import create as create_topics
from devkit.topics import cut
from services.events import LISTENING_EVENTS
from streamstate.app import dead_letter_topic
from streamstate.cli.main import app
from streamstate.kafka.producer import producer
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.store import Snapshot
from tests.serving import sample
from tests.waiting import PATIENCE_S, REQUEST_S, until, until_equal

USER = 7


class Start(Protocol):
    """Makes the stream of the service in `package`, called `name`."""

    def __call__(self, package: str, name: str, topics: Mapping[str, str], **settings: str) -> Child: ...


class Deployment:
    """A service over a topic of its own; its state is in the Redis of `cluster`, or in that at `redis`.

    Its streams are processes, unless `host` makes them. archive: a folder with records of the topic, if any.
    """

    def __init__(self, cluster: LocalCluster, name: str, redis: str = "", host: Start | None = None) -> None:
        self.cluster = cluster
        self._make = host or cluster.deployment
        self.redis = redis or cluster.redis.url
        self.name = self.topic = name
        self.package, self.service = "services", "metrics"
        self.archive = ""
        self.admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap, "log_level": 0})
        self.client = connect(self.redis, 5.0)
        self.store = RedisStore(self.client, name)
        self.started: list[Child] = []

    def create(self, partitions: int = 1) -> None:
        for topic, count in ((self.topic, partitions), (dead_letter_topic(self.name), 1)):
            create_topics(self.cluster.kafka.bootstrap, {topic: {}}, count)

    def delete(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result()
        until(lambda: self.topic not in self.admin.list_topics(timeout=REQUEST_S).topics, "the topic to be gone")

    def configure(self, name: str, value: int | str) -> None:
        """Change a property of the topic."""
        entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result()

    def delete_records(self, end: int) -> None:
        """Delete the records of the first partition that are before the offset `end`, as retention does."""
        cut(self.cluster.kafka.bootstrap, {(self.topic, 0): end})

    def empty(self) -> None:
        """Delete the whole state atomically."""
        self.client.delete(*self.client.scan_iter(f"{{{self.name}:*"))

    def send(self, count: int) -> None:
        """Send plays of now."""
        self.put(*[0] * count)

    def put(self, *timestamps: int, user: int = USER, value: bytes = b"") -> None:
        """Send plays of `user`, or other values, with these timestamps in ms; 0: the present time."""
        out = producer(self.cluster.kafka.bootstrap)
        key, play = records.event(user, 1, 1, 1, 1)
        for timestamp in timestamps:
            out.produce(self.topic, value or play, key, timestamp=timestamp)
        out.flush()

    def close(self) -> None:
        """Stop what was started."""
        for child in self.started:
            child.stop()
        self.client.close()

    def stream(self, service: str = "", **settings: str) -> "Stream":
        """A stream of the service, or of another `service`, over the topic, started."""
        port, service = free_port(), service or self.service
        topics = {LISTENING_EVENTS: self.topic} if service == "metrics" else {}
        own = {"REDIS": self.redis, "ARCHIVE": self.archive, "STATUS_PORT": str(port), **settings}
        child = self._make(f"{self.package}.{service}", self.name, topics, **own)
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
        child = LocalCluster.api("services.metrics", f"{self.name}-api", address, home, {**self.settings, **settings})
        child.start()
        self.started.append(child)
        child.wait_until(lambda: answers(f"http://{address}/livez"), PATIENCE_S)
        return address

    def run(self, command: str, *arguments: str) -> Result:
        """`streamstate` for this deployment."""
        return CliRunner().invoke(app, [*command.split(), self.service, *arguments], env=variables(self.settings))

    def command(self, command: str, *arguments: str, status: int | None = None) -> Any:
        """The JSON of `streamstate`, extracted from a list of deployments; `status` is the expected exit status."""
        result = self.run(command, *arguments, "--json")
        assert status in (None, result.exit_code), result.output
        assert result.stdout, result.output
        answer = json.loads(result.stdout)
        return answer[0] if isinstance(answer, list) else answer

    @property
    def settings(self) -> dict[str, str]:
        return {
            "KAFKA": self.cluster.kafka.bootstrap,
            "REDIS": self.redis,
            "NAME": self.name,
            "ARCHIVE": self.archive,
            "TOPICS": json.dumps({LISTENING_EVENTS: self.topic} if self.service == "metrics" else {}),
        }

    def snapshot(self) -> Snapshot:
        return self.store.read({0: [Fields(f"numbers:{USER}")]})[0]

    def position(self) -> int:
        return self.snapshot().positions.get(self.topic, 0)

    def folded(self, position: int) -> None:
        until_equal(self.position, position, "the position")


class Stream:
    """The stream process, seen through its status port."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.stop = child.stop
        self._url = f"http://{LOCALHOST}:{port}"

    def get(self, path: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request("GET", f"{self._url}{path}", timeout=REQUEST_S, retries=False)

    def refused(self, *parts: str) -> None:
        """The stream lives, and says in its log, its status and its metrics why it does not go on."""

        told = [""]

        def says() -> bool:
            try:
                told[0] = str(self.get("/readyz").json().get("reasons", ""))
            except urllib3.exceptions.HTTPError:
                return False
            return parts[0] in told[0]

        until(says, f"a refusal since {parts[0]}")
        assert [part for part in parts if part not in told[0]] == []
        # The log is JSON.
        assert [part for part in parts if json.dumps(part)[1:-1] not in self.child.tail(200)] == []
        assert sample(self.get("/metrics").data.decode(), "streamstate_stream_refused") == 1
        assert self.get("/livez").status == 200
        assert self.child.alive
