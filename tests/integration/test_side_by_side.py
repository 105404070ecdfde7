"""Two releases of a service side by side, on a real Kafka and Spark: they share no topic that is written."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaException

from devkit.child_process import Child
from devkit.topics import create as create_topics
from services.clicks.model import APP as CLICKS_APP
from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from services.names.model import APP as NAMES_APP
from services.names.model import ENRICHED
from streamstate.app import App
from streamstate.cli.services import deployments
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.keys import Marker
from streamstate.settings import CommandSettings
from streamstate.state.redis import RedisStore, connect
from streamstate.verify.check import Check
from tests.collector import collecting
from tests.integration import erased
from tests.integration.driving import Driving
from tests.waiting import until
from tests.worked import CLICKS, TOTALS

PARTITIONS = 4


@contextmanager
def released(driving: Driving, app: App, name: str, topics: Mapping[str, str], **settings: str) -> Iterator[Child]:
    """A further release of `app`, until it has read all of its topics; its state is checked at the end."""
    cluster, other = driving.cluster, renamed(app, name, topics)
    new = {*topics.values(), other.dead_letters}
    create_topics(cluster.kafka.bootstrap, {topic: {} for topic in new}, PARTITIONS)
    known = Topics(cluster.kafka.bootstrap)

    def led() -> bool:
        try:
            return len(known.ends((topic, p) for topic in new for p in range(PARTITIONS))) > 0
        except KafkaException:
            return False

    until(led, 30, "the new topics to have leaders")
    formats = {"formats": json.loads(settings.get("FORMATS", "{}")), "registry": settings.get("REGISTRY", "")}
    own = {**cluster.settings.model_dump(), **formats, "name": name, "topics": topics}
    command = CommandSettings.model_validate(own)
    store = RedisStore(connect(cluster.redis.url, 5.0), name)
    stream = cluster.deployment(f"services.{app.name}", name, topics, GROUP=f"team.{name}", **settings)
    stream.start()
    try:
        yield stream
        (deployed,) = deployments(command, [app.name], "recount")
        width = max(deployed.topics.partitions(topic) for topic in other.topics)
        ends = deployed.topics.ends([(t, p) for t in other.topics for p in range(deployed.topics.partitions(t))])

        def reached() -> bool:
            snapshots = store.read({partition: [] for partition in range(width)})
            return all(snapshots[p].positions.get(topic, 0) == end for (topic, p), end in ends.items())

        until(reached, 120, f"{name} to catch up")
        report = Check(deployed.recounted, command).run()
        assert report.records > 0
        assert report.differences == []
        until(lambda: bool(deployed.topics.members(f"team.{name}")), 120, f"{name} to be in its group")
    finally:
        stream.stop()


def test_a_service_that_merges_topics_and_publishes_totals_over_other_topics(driving: Driving) -> None:
    topics = {USER_CLICKS: "eu-clicks", USER_REGIONS: "eu-regions", CLICKS_PER_REGION: "eu-totals"}
    before = driving.regions()
    with released(driving, CLICKS_APP, "clicks-eu", topics | {"clicks-dlq": "eu-dead"}):
        for time, topic, key, value in CLICKS:
            driving.out.produce(topics[topic], None if value is None else value.encode(), key, timestamp=time)
        driving.out.flush()

        def totals() -> dict[str, int]:
            records = driving.read("eu-totals")
            return {(record.key() or b"").decode(): int(record.value() or b"0") for record in records}

        until(lambda: totals() == TOTALS, 120, "the totals")
    assert driving.regions() == before


def test_a_service_that_looks_up_tables_and_emits_records_into_a_topic_of_its_own(
    driving: Driving, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {"artists": "eu-artists", ENRICHED: "eu-enriched"}
    before, plays = len(driving.read(ENRICHED)), driving.usable_plays(but_of=erased.USER)

    def enriched() -> set[Marker | None]:
        return {Marker.from_headers(record.headers()) for record in driving.read("eu-enriched")}

    with collecting() as collector:
        for name, text in collector.environment.items():
            monkeypatch.setenv(name, text)

        def traced() -> int:
            """The records of all micro-batches that were told of."""
            spans = collector.named("names-eu-stream", "micro-batch")
            return sum(span.attributes["messaging.batch.message_count"] for span in spans)

        with released(driving, NAMES_APP, "names-eu", topics):
            # No record is too large: this release knows no names.
            until(lambda: enriched() == plays, 120, "the enriched events")
            until(lambda: traced() >= len(plays), 30, "the spans of the micro-batches")
        # No batch is told of twice.
        assert traced() <= sum(len(driving.read(topic)) for topic in NAMES_APP.topics)
    assert len(driving.read(ENRICHED)) == before
