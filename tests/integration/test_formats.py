"""The same events in every format, by a real schema registry, on a real Kafka, Redis and Spark."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest
import urllib3
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from devkit.events.formats import TYPES, DetailedEvent, declared, registered
from devkit.servers.child_process import Child, free_port
from devkit.servers.schema_registry import SchemaRegistry
from services.events import LISTENING_EVENTS, ListeningEvent
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.names.model import ENRICHED
from streamstate.formats.registered.declared import schema as known_schema
from streamstate.formats.registered.registry import Registry
from streamstate.formats.writing import FormatEncoder
from streamstate.keys import LONG, TEXT, partition_of
from streamstate.processing.decode import MISPLACED
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.verify.redis_state import RedisState
from tests.collector import Collector
from tests.integration.driving import headers
from tests.integration.releases import PARTITIONS, Releases
from tests.unit.formats.serializers import SERIALIZERS
from tests.waiting import REQUEST_S, until, until_equal

PLAYS = 3_000
START_MS = 1_750_000_000_000
FIELDS = {"userId": "user_id"}
DETAILS: Sequence[Mapping[str, Any]] = (
    {},
    {"device": None, "genre": None, "durationMs": None},
    {"device": "tv", "genre": "folk", "durationMs": 8_000},
)
BACKWARD = ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD)
FORMATS = ("avro", "protobuf", "jsonschema")

# Of a third schema, under the name of the earlier schemas.
LoudPlay = msgspec.defstruct("ListeningEvent", [("volume", int | None, None)], bases=(DetailedEvent,), rename="camel")


@pytest.fixture(scope="module")
def plays() -> Sequence[ListeningEvent]:
    draw = Random(3)
    return [
        ListeningEvent(
            draw.randrange(200), draw.randrange(50), draw.randrange(50), draw.randrange(50), START_MS + number
        )
        for number in range(PLAYS)
    ]


@dataclass
class Producing:
    """Plays into `topic` by the schemas that evolve there; none without a registry."""

    releases: Releases
    topic: str
    value: str
    registry: SchemaRegistry

    def __post_init__(self) -> None:
        self.releases.create(self.topic)
        self.first = self.writer(ListeningEvent)
        if self.value:
            with SchemaRegistryClient({"url": self.registry.url}) as client:
                client.set_config(f"{self.topic}-value", BACKWARD)
        self.second = self.writer(declared(LISTENING_EVENTS, self.value))

    def writer(self, kind: type) -> FormatEncoder:
        names = FIELDS if self.value else {}
        writer = FormatEncoder((LONG, LONG), kind, self.value, names, Registry(self.registry.url))
        return registered(writer, self.topic) if self.value else writer

    def send(self, plays: Sequence[ListeningEvent], writer: FormatEncoder) -> None:
        for number, play in enumerate(plays):
            details = {} if writer is self.first else DETAILS[number % len(DETAILS)]
            value = msgspec.json.encode({**msgspec.to_builtins(play), **details})
            key, content = writer(LONG.encode(play.user_id), value)
            self.releases.out.produce(self.topic, content, key, timestamp=play.timestamp)
        self.releases.out.flush()

    def send_all(self, plays: Sequence[ListeningEvent]) -> None:
        """The schema evolves in the middle, and both are used from then on."""
        half = len(plays) // 2
        self.send(plays[:half], self.first)
        self.send(plays[half:-100], self.second)
        self.send(plays[-100:], self.first)

    @property
    def settings(self) -> dict[str, str]:
        formats = {LISTENING_EVENTS: {"value": self.value, "fields": FIELDS}} if self.value else {}
        return {"FORMATS": json.dumps(formats), "REGISTRY": self.registry.url}


def state(releases: Releases, name: str) -> dict[str, Any]:
    """Every key and value of a release, apart from the partitions' own hashes."""
    stored = RedisState(connect(releases.cluster.redis.url, 10.0), name)
    found: dict[str, Any] = {}
    for partition in range(PARTITIONS):
        keys = sorted(stored.keys(partition))
        found |= {
            f"{partition}:{key}": value for key, value in zip(keys, stored.read(partition, keys).values, strict=True)
        }
    return found


def counted(releases: Releases, name: str) -> dict[str, int]:
    store = RedisStore(connect(releases.cluster.redis.url, 10.0), name)
    snapshots = store.read({partition: [] for partition in range(PARTITIONS)}).values()
    return {what: sum(each.counters.get(what, 0) for each in snapshots) for what in ("dead_letters", MISPLACED)}


def folded(releases: Releases, name: str) -> int:
    store = RedisStore(connect(releases.cluster.redis.url, 10.0), name)
    return sum(sum(each.positions.values()) for each in store.read({p: [] for p in range(PARTITIONS)}).values())


def text(url: str) -> tuple[int, str]:
    answer = urllib3.request("GET", url, timeout=REQUEST_S, retries=False)
    return answer.status, answer.data.decode()


def waiting(port: int) -> float:
    """The value of the metric of the stream with this status port."""
    lines = text(f"http://127.0.0.1:{port}/metrics")[1].splitlines()
    (line,) = (line for line in lines if line.startswith("streamstate_stream_waiting_for_schema{"))
    return float(line.split()[-1])


@pytest.fixture(scope="module")
def as_json(releases: Releases, registry: SchemaRegistry, plays: Sequence[ListeningEvent]) -> dict[str, Any]:
    """The state that JSON makes of the plays."""
    producing = Producing(releases, "plays-json", "", registry)
    producing.send_all(plays)
    with releases.released(METRICS, "metrics-json", {LISTENING_EVENTS: "plays-json"}):
        pass
    return state(releases, "metrics-json")


@pytest.mark.parametrize("value", FORMATS)
def test_the_same_events_give_the_same_state_in_every_format(
    value: str, releases: Releases, registry: SchemaRegistry, plays: Sequence[ListeningEvent], as_json: dict[str, Any]
) -> None:
    name, topic = f"metrics-{value}", f"plays-{value}"
    producing = Producing(releases, topic, value, registry)
    producing.send_all(plays)
    # Cut short, and of a schema that nobody knows.
    for content in (producing.first.write(msgspec.json.encode(plays[0]))[:7], b"\0\0\1\0\0{}"):
        releases.out.produce(topic, content, LONG.encode(1))
    with releases.released(METRICS, name, {LISTENING_EVENTS: topic}, **producing.settings):
        pass
    assert state(releases, name) == as_json
    assert len(as_json) > PARTITIONS
    assert counted(releases, name) == {"dead_letters": 2, MISPLACED: 0}
    reasons = [str(headers(letter)["__streams.errors.message"]) for letter in releases.read(f"{name}-dlq")]
    assert any("has no schema 65536" in reason for reason in reasons)
    assert any(f"schema {producing.first.number} does not fit" in reason for reason in reasons)


@pytest.mark.parametrize("kind", FORMATS)
def test_keys_with_schemas_are_counted_where_apis_look(
    kind: str,
    releases: Releases,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    plays: Sequence[ListeningEvent],
) -> None:
    name, topic = f"metrics-keys-{kind}", f"plays-keys-{kind}"
    releases.create(topic)
    serialize = SERIALIZERS[kind](client, LONG, SerializationContext(topic, MessageField.KEY))
    for play in plays[:500]:
        releases.out.produce(topic, msgspec.json.encode(play), serialize(play.user_id))
    releases.out.flush()
    number = client.get_latest_version(f"{topic}-key").schema_id
    formats = json.dumps({LISTENING_EVENTS: {"key": kind, "key_field": "id", "key_schema": number}})
    with releases.released(METRICS, name, {LISTENING_EVENTS: topic}, FORMATS=formats, REGISTRY=registry.url):
        pass
    assert counted(releases, name) == {"dead_letters": 0, MISPLACED: 0}


@pytest.mark.parametrize("value", FORMATS)
def test_the_registry_accepts_the_schema_of_every_topic_of_the_demo(value: str, registry: SchemaRegistry) -> None:
    known = Registry(registry.url)
    for topic in TYPES:
        writer = registered(FormatEncoder((TEXT, TEXT), declared(topic, value), value, {}, known), f"{topic}-{value}")
        assert writer.number is not None


def test_a_registry_that_is_away_holds_up_what_has_a_schema_that_is_not_known_yet(
    releases: Releases, registry: SchemaRegistry, plays: Sequence[ListeningEvent]
) -> None:
    producing = Producing(releases, "plays-away", "avro", registry)
    third = producing.writer(LoudPlay)
    port = free_port()
    topics = {LISTENING_EVENTS: "plays-away"}
    (held,) = {partition_of(LONG.encode(7), PARTITIONS)}
    with releases.released(METRICS, "metrics-away", topics, STATUS_PORT=str(port), **producing.settings):
        producing.send(plays[:1_000], producing.first)
        until_equal(lambda: folded(releases, "metrics-away"), 1_000, "the plays of a known schema")
        registry.kill()
        late = [ListeningEvent(7, 1, 1, 1, START_MS)]
        producing.send(late, third)
        producing.send(plays[1_000:2_000], producing.first)
        elsewhere = [play for play in plays[1_000:2_000] if partition_of(LONG.encode(play.user_id), PARTITIONS) != held]
        until(lambda: folded(releases, "metrics-away") >= 1_000 + len(elsewhere), "the other partitions")
        until_equal(lambda: waiting(port), 1, "the metric to say that a partition waits")
        status, reason = text(f"http://127.0.0.1:{port}/readyz")
        assert (status, f"these partitions wait for a schema: plays-away:{held}" in reason) == (503, True)
        assert folded(releases, "metrics-away") == 1_000 + len(elsewhere)
        registry.start()
        until_equal(lambda: folded(releases, "metrics-away"), 2_001, "all plays")
        until_equal(lambda: waiting(port), 0, "the metric to say that nothing waits")
    assert counted(releases, "metrics-away") == {"dead_letters": 0, MISPLACED: 0}


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def test_ids_in_headers_are_read_and_dead_letters_keep_their_bytes(
    releases: Releases, registry: SchemaRegistry, plays: Sequence[ListeningEvent], as_json: dict[str, Any]
) -> None:
    topic, name = "plays-headers", "metrics-headers"
    producing = Producing(releases, topic, "avro", registry)
    for number, play in enumerate(plays):
        value = producing.first.write(msgspec.json.encode(play))
        ids: Any = [("__value_schema_id", value[:5])]
        given = [(value[5:], ids), (value, [("trace", b"1")]), (value, None)][number % 3]
        releases.out.produce(topic, given[0], LONG.encode(play.user_id), timestamp=play.timestamp, headers=given[1])
    releases.out.produce(topic, b"no", LONG.encode(1), timestamp=START_MS, headers=ids)
    releases.out.flush()
    formats = json.dumps({LISTENING_EVENTS: {"value": "avro", "fields": FIELDS, "header_ids": True}})
    with releases.released(METRICS, name, {LISTENING_EVENTS: topic}, FORMATS=formats, REGISTRY=registry.url):
        pass
    assert state(releases, name) == as_json
    (letter,) = releases.read(f"{name}-dlq")
    assert (letter.value(), headers(letter)["__value_schema_id"]) == (b"no", ids[0][1])


def test_outputs_register_their_schemas_or_are_refused(
    releases: Releases,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    plays: Sequence[ListeningEvent],
    collector: Collector,
) -> None:
    Producing(releases, "plays-named", "", registry).send_all(plays)
    formats = json.dumps({ENRICHED: {"value": "avro", "fields": FIELDS}})
    port, topic, subject = free_port(), "avro-enriched", "avro-enriched-value"
    settings = {"FORMATS": formats, "REGISTRY": registry.url, "STATUS_PORT": str(port)}
    other = json.dumps({"type": "record", "name": "Other", "fields": [{"name": "needed", "type": "string"}]})
    client.register_schema(subject, Registered(other, "AVRO"))
    client.set_config(subject, BACKWARD)
    with releases.released(
        NAMES, "names-avro", {LISTENING_EVENTS: "plays-named", ENRICHED: topic}, **settings
    ) as stream:
        until(lambda: refused(stream, port), "the refusal")
        assert f"the schema registry refuses the schema for {subject}" in stream.tail(200)
        client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
        until(lambda: traced(collector, "names-avro-stream") >= len(plays), "a span of each micro-batch")
    read: Any = AvroDeserializer(client)
    context = SerializationContext(topic, MessageField.VALUE)
    values = [read(record.value(), context) for record in releases.read(topic)]
    assert len(values) == len(plays)
    assert {"user_id", "artistName"} <= values[0].keys()


def test_outputs_by_the_latest_schema_register_nothing(
    releases: Releases, registry: SchemaRegistry, client: SchemaRegistryClient, plays: Sequence[ListeningEvent]
) -> None:
    Producing(releases, "plays-latest", "", registry).send_all(plays[:300])
    port, topic, subject = free_port(), "latest-enriched", "latest-enriched-value"
    formats = json.dumps({ENRICHED: {"value": "avro", "fields": FIELDS, "latest": True}})
    settings = {"FORMATS": formats, "REGISTRY": registry.url, "STATUS_PORT": str(port)}
    names = json.loads(known_schema("avro", NAMES.emits[ENRICHED].value, FIELDS).text)
    added = {"name": "ci", "type": "string", "default": "yes"}
    with releases.released(
        NAMES, "names-latest", {LISTENING_EVENTS: "plays-latest", ENRICHED: topic}, **settings
    ) as of:
        until(lambda: f"has no version of {subject}; register one" in of.tail(200), "the refusal")
        other = Registered(json.dumps({**names, "fields": names["fields"][1:]}), "AVRO")
        client.register_schema(subject, other)
        until(lambda: f"schema of {subject}" in of.tail(200), "the next refusal")
        client.register_schema(subject, Registered(json.dumps({**names, "fields": [*names["fields"], added]}), "AVRO"))
    assert client.get_versions(subject) == [1, 2]
    read: Any = AvroDeserializer(client)
    context = SerializationContext(topic, MessageField.VALUE)
    assert {read(record.value(), context)["ci"] for record in releases.read(topic)} == {"yes"}


def traced(collector: Collector, service: str) -> int:
    """The records of all micro-batches with a span."""
    spans = collector.named(service, "micro-batch")
    return sum(span.attributes["messaging.batch.message_count"] for span in spans)


def refused(stream: Child, port: int) -> bool:
    try:
        status, reason = text(f"http://127.0.0.1:{port}/readyz")
    except urllib3.exceptions.HTTPError:
        assert stream.alive
        return False
    return status == 503 and "schema registry refuses" in reason
