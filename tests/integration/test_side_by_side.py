"""Two releases of a service side by side, on a real Kafka and Spark: they share no topic that is written."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devkit.demo import CACHE
from services.clicks.model import APP as CLICKS_APP
from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from services.names.model import APP as NAMES_APP
from services.names.model import ENRICHED
from streamstate.keys import Marker
from tests.collector import Collector, collecting
from tests.integration import erased
from tests.integration.driving import Driving
from tests.integration.releases import Releases
from tests.stream_host import StreamHost
from tests.waiting import until
from tests.worked import CLICKS, TOTALS


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def releases(driving: Driving, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releases]:
    """Of the ring, whose topics they may read; their spans go to the collector."""
    with pytest.MonkeyPatch.context() as patch:
        for name, text in collector.environment.items():
            patch.setenv(name, text)
        host = StreamHost(tmp_path_factory.mktemp("side"), Path.cwd() / CACHE)
    yield Releases(driving.cluster, partial(host.deployment, driving.cluster), driving.out)
    host.stop()


def test_a_service_that_merges_topics_and_publishes_totals_over_other_topics(
    driving: Driving, releases: Releases
) -> None:
    topics = {USER_CLICKS: "eu-clicks", USER_REGIONS: "eu-regions", CLICKS_PER_REGION: "eu-totals"}
    before = driving.regions()
    with releases.released(CLICKS_APP, "clicks-eu", topics | {"clicks-dlq": "eu-dead"}):
        for time, topic, key, value in CLICKS:
            driving.out.produce(topics[topic], None if value is None else value.encode(), key, timestamp=time)
        driving.out.flush()

        def totals() -> dict[str, int]:
            records = driving.read("eu-totals")
            return {(record.key() or b"").decode(): int(record.value() or b"0") for record in records}

        until(lambda: totals() == TOTALS, 120, "the totals")
    assert driving.regions() == before


def test_a_service_that_looks_up_tables_and_emits_records_into_a_topic_of_its_own(
    driving: Driving, releases: Releases, collector: Collector
) -> None:
    topics = {"artists": "eu-artists", ENRICHED: "eu-enriched"}
    before, plays = len(driving.read(ENRICHED)), driving.usable_plays(but_of=erased.USER)

    def enriched() -> set[Marker | None]:
        return {Marker.from_headers(record.headers()) for record in driving.read("eu-enriched")}

    def traced() -> int:
        """The records of all micro-batches that were told of."""
        spans = collector.named("names-eu-stream", "micro-batch")
        return sum(span.attributes["messaging.batch.message_count"] for span in spans)

    with releases.released(NAMES_APP, "names-eu", topics):
        # No record is too large: this release knows no names.
        until(lambda: enriched() == plays, 120, "the enriched events")
        until(lambda: traced() >= len(plays), 30, "the spans of the micro-batches")
    # No batch is told of twice.
    assert traced() <= sum(len(driving.read(topic)) for topic in NAMES_APP.topics)
    assert len(driving.read(ENRICHED)) == before
