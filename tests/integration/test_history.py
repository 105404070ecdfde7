"""States built from an archive after Kafka has deleted records: every key as before, or a clear refusal."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from devkit import topics
from devkit.events import records
from services.clicks.model import APP as CLICKS
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate import bootstrap
from streamstate.state.operations import Fields
from streamstate.verify.redis_state import RedisState
from tests.integration.kept import PARTITIONS, PLAYS, USERS, Kept
from tests.integration.releases import Releases
from tests.integration.test_slices import backlog
from tests.waiting import REQUEST_S, until, until_equal


@pytest.fixture(scope="module")
def archived(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Plays, held by Kafka by half and by the archive more than that."""
    kept = Kept(releases, METRICS, tmp_path_factory.mktemp("archived"))
    kept.play()
    kept.build()
    kept.before = kept.contents()
    kept.keep(listening_events=0.9)
    return kept


@pytest.fixture
def played(archived: Kept) -> Kept:
    """The plays, without a state."""
    archived.empty()
    return archived


def test_every_key_is_as_before_and_verify_agrees(played: Kept) -> None:
    stream = played.build()
    assert "the archive is folded" in stream.child.tail(500)
    assert played.contents() == played.before
    assert played.differences() == []
    begins = {f"begin:{played.names[LISTENING_EVENTS]}": "0"}
    assert begins.items() <= RedisState(played.client, played.name).read(0, []).held.items()


def test_a_deleted_user_stays_deleted(played: Kept) -> None:
    deletions = f"{played.name}-deletions"
    topics.create(played.kafka, {deletions: {"cleanup.policy": "compact"}}, 1)
    played.build()
    settings = played.settings.model_copy(update={"deletions": deletions})
    asked = bootstrap.deletions(settings, played.deployed.topics)
    assert asked
    asked.request(played.deployed.app, "7")

    def counted() -> int:
        snapshots = played.states.store(played.name).read(
            {partition: [Fields("numbers:7")] for partition in range(PARTITIONS)}
        )
        return sum(snapshot.values[0].get("#", 0) for snapshot in snapshots.values())

    assert counted() == PLAYS // USERS
    with played.stream(DELETIONS=deletions):
        until_equal(counted, 0, "the user to be deleted")
    played.empty()
    played.build(DELETIONS=deletions)
    assert counted() == 0
    assert len(played.contents()) > USERS


@pytest.mark.parametrize("share", [1.0, 0.7], ids=["all archived", "a part archived"])
def test_merged_topics_are_folded_in_one_order(releases: Releases, tmp_path: Path, share: float) -> None:
    kept = Kept(releases, CLICKS, tmp_path)
    click(kept)
    kept.build()
    before = kept.contents()
    kept.keep(0.5 if share == 1 else 0.2, user_clicks=share, user_regions=share)
    kept.empty()
    # Small slices, so that topics end within many of them.
    stream = kept.build(BATCH_RECORDS="1000")
    assert "the archive is folded" in stream.child.tail(500)
    assert kept.contents() == before


def click(kept: Kept) -> None:
    for topic, partition, key, value, timestamp in backlog():
        kept.releases.out.produce(kept.names[topic], value, key, partition, timestamp=timestamp)
    kept.releases.out.flush()


def test_tables_are_complete_before_the_archive_of_events_is_folded(releases: Releases, tmp_path: Path) -> None:
    kept = Kept(releases, NAMES, tmp_path)
    for number in range(20):
        for topic in NAMES.tables:
            kind, key, value = records.name(topic, number, f"{topic} {number}")
            kept.releases.out.produce(kept.names[kind], value, key)
    kept.releases.out.flush()
    kept.play()
    kept.build()
    before = kept.contents()
    # The tables are in Kafka only.
    kept.keep(artists=0.0, albums=0.0, tracks=0.0, listening_events=0.8)
    kept.empty()
    stream = kept.build()
    assert "the archive is folded" in stream.child.tail(500)
    assert kept.contents() == before


def test_what_cannot_be_built_is_refused_with_the_reason(played: Kept) -> None:
    topic = played.names[LISTENING_EVENTS]
    second = sorted((played.folder / topic / "0").iterdir())[1]
    away = played.folder / "away.parquet"
    second.rename(away)
    with played.stream() as stream:
        stream.refused(f"the archive {played.folder} lacks the offsets", f"of {topic}:0", "bring their file back")
        assert played.states.positions(played.name)[topic, 0] == 0
        away.rename(second)
        played.settle()
    gone = shutil.move(played.folder / topic, played.folder / "gone")
    played.empty()
    with played.stream() as stream:
        stream.refused(f"{topic}:0 begins at offset")
    shutil.move(gone, played.folder / topic)


def test_a_topic_created_anew_is_refused(played: Kept) -> None:
    """The last test of this topic."""
    topic = played.names[LISTENING_EVENTS]
    admin = AdminClient({"bootstrap.servers": played.kafka, "log_level": 0})
    admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in admin.list_topics(timeout=REQUEST_S).topics, "the topic to be gone")
    played.releases.create(topic, partitions=PARTITIONS)
    with played.stream() as stream:
        stream.refused("the topic was created anew; move the folder away")


def test_a_merged_topic_that_is_not_archived_is_refused(releases: Releases, tmp_path: Path) -> None:
    kept = Kept(releases, CLICKS, tmp_path)
    click(kept)
    kept.keep(user_regions=0.0, user_clicks=1.0)
    with kept.stream() as stream:
        stream.refused("merged with records of other topics that are not archived", "STREAMSTATE_ARCHIVE_TOPICS")
