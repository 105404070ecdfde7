"""The archiver's turns, over topics that change: cut, created anew, and deleted before they were archived."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from werkzeug.test import Client

from services.archive.archiver import Archiver
from services.archive.settings import ArchiverSettings
from services.archive.status import STILL_S, ArchiverStatus
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import Row, batch
from streamstate.history.archive.segments import Segment, covered
from streamstate.kafka.admin import Topics
from streamstate.kafka.security import OPEN, Security
from streamstate.state.store import Origin, TopicPartition
from tests.serving import sample
from tests.waiting import now_ms

PLACE = ("plays", 0)
HELD = [PLACE]


class Kafka(Topics):
    """A topic with a record at each offset from `begin` on, before `end`."""

    def __init__(self) -> None:
        self.begin, self.end, self.id = 0, 10, "one"
        self.bootstrap = ""
        self.away = False
        self.deleted_while_read = 0

    @property
    def security(self) -> Security:
        return OPEN

    def describe(self, topics: Collection[str], timeout: float = 0) -> dict[str, Origin]:  # noqa: ARG002
        return dict.fromkeys(topics, Origin(self.id, 1))

    def origin(self, topic: str) -> Origin:
        return self.describe([topic])[topic]

    def begins(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return dict.fromkeys(places, self.begin)

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.end)

    def retention_ms(self, topics: Iterable[str]) -> dict[str, float]:
        return dict.fromkeys(topics, 100_000.0)

    @contextmanager
    def log(self, place: TopicPartition, start: int) -> Iterator[Any]:
        class Log:
            def up_to(_, end: int) -> Iterator[Message]:  # noqa: N805
                for offset in range(start, end):
                    yield Message(topic=place[0], partition=place[1], offset=offset, value=b"v", timestamp=(1, offset))
                self.begin += self.deleted_while_read

        yield Log()


class NoSchemas:
    def keep(self, topic: str, rows: Collection[Row]) -> None:
        """Values have none."""


class Turns:
    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.kafka, self.status = Kafka(), ArchiverStatus("archivers")
        self.archive = Archive(str(folder))
        given = ArchiverSettings(archive_topics=("plays",), **settings)
        self.archiver = Archiver(self.archive, self.kafka, given, self.status, NoSchemas())
        vars(self.archiver)["_log"] = self.kafka

    def turn(self) -> bool:
        return self.archiver.turn(HELD)

    def metric(self, name: str) -> float | None:
        text = Client(self.status.application()).get("/metrics").get_data(as_text=True)
        labels = {"service": "archivers", "topic": "plays"}
        partition = {"partition": "0"} if name in ("offset", "reserve", "lag", "seconds_left") else {}
        return sample(text, f"streamstate_archive_{name}", **labels, **partition)

    def reason(self) -> str:
        return str(Client(self.status.application()).get("/readyz").get_json())


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record that the archive lacks came 40 seconds ago."""
    monkeypatch.setattr("services.archive.archiver.open_since", lambda *_: now_ms() - 40_000)


@pytest.fixture
def turns(tmp_path: Path) -> Turns:
    made = Turns(tmp_path, {"archive_seconds": 1e-9})
    made.status.known = True
    return made


def test_a_turn_archives_up_to_the_end_and_counts(turns: Turns) -> None:
    assert not turns.turn()
    assert turns.archive.segments(PLACE) == [Segment(0, 9)]
    assert turns.archiver.ends() == {PLACE: 10}
    turns.kafka.begin = 4
    turns.turn()
    assert [turns.metric(name) for name in ("offset", "reserve", "lag", "files_total")] == [10, 6, 0, 1]
    assert turns.metric("retention_seconds") == turns.metric("seconds_left") == 100
    assert turns.reason() == "{'status': 'ok'}"


def test_a_partition_waits_for_its_period_and_its_time_left_falls(tmp_path: Path, turns: Turns) -> None:
    turns.turn()
    later = Turns(tmp_path, {"archive_seconds": 3_600})
    later.kafka.end = 12
    assert not later.turn()
    assert later.archive.segments(PLACE) == [Segment(0, 9)]
    assert later.metric("lag") == 2
    assert 59 < (later.metric("seconds_left") or 0) <= 60


def test_full_files_follow_at_once(tmp_path: Path) -> None:
    turns = Turns(tmp_path, {"archive_bytes": 1, "archive_seconds": 3_600})
    turns.kafka.end = 5_000
    while turns.turn():
        pass
    assert turns.archive.segments(PLACE) == [Segment(0, 1_999), Segment(2_000, 3_999), Segment(4_000, 4_999)]


def test_records_that_kafka_deleted_leave_a_gap_and_count_as_lost(turns: Turns) -> None:
    turns.turn()
    turns.kafka.begin, turns.kafka.end = 13, 20
    turns.turn()
    assert turns.archive.segments(PLACE) == [Segment(0, 9), Segment(13, 19)]
    assert turns.metric("lost_total") == 3


def test_a_file_that_was_moved_away_is_archived_again_after_a_restart(tmp_path: Path) -> None:
    turns = Turns(tmp_path, {"archive_bytes": 1})
    turns.kafka.end = 5_000
    while turns.turn():
        pass
    turns.archive.delete(PLACE, [Segment(2_000, 3_999)])
    later = Turns(tmp_path, {"archive_seconds": 1e-9})
    later.kafka.begin, later.kafka.end = 1_000, 5_000
    later.turn()
    assert covered(later.archive.segments(PLACE), 0) == 5_000


def test_large_records_are_read_in_small_pieces(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.archive.archiver._PIECE_BYTES", 3)
    sizes: list[int] = []

    def noted(rows: Sequence[Row]) -> Any:
        sizes.append(len(rows))
        return batch(rows)

    monkeypatch.setattr("services.archive.archiver.batch", noted)
    turns.turn()
    assert sizes == [3, 3, 3, 1]


def test_records_deleted_while_they_are_read_are_read_again(turns: Turns) -> None:
    turns.kafka.deleted_while_read = 2
    turns.turn()
    assert turns.archive.segments(PLACE) == []
    assert "read again" in turns.reason()
    turns.kafka.deleted_while_read = 0
    turns.turn()
    assert turns.archive.segments(PLACE) == [Segment(2, 9)]
    assert turns.reason() == "{'status': 'ok'}"


@pytest.mark.parametrize(
    ("kafka", "reason"),
    [({"id": "two", "end": 12}, "move the folder plays of the archive away"), ({"end": 7}, "Kafka lost records")],
    ids=str,
)
def test_another_or_a_cut_topic_is_refused(turns: Turns, kafka: dict[str, Any], reason: str) -> None:
    turns.turn()
    for name, value in kafka.items():
        setattr(turns.kafka, name, value)
    turns.turn()
    assert turns.archive.segments(PLACE) == [Segment(0, 9)]
    assert reason in turns.reason()
    turns.archive.delete(PLACE, [Segment(0, 9)])
    turns.turn()
    assert turns.archive.segments(PLACE) == [Segment(0, turns.kafka.end - 1)]


def test_a_turn_survives_an_unreachable_kafka_and_a_full_disk(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    turns.kafka.away = True
    turns.turn()
    assert "_ALL_BROKERS_DOWN" in turns.reason()
    turns.kafka.away = False

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("streamstate.history.archive.unfinished.Unfinished.keep", full)
        turns.turn()
    assert "No space left" in turns.reason()
    assert turns.status.failures == 2
    turns.turn()
    assert turns.archive.segments(PLACE) == [Segment(0, 9)]
    assert turns.reason() == "{'status': 'ok'}"


def test_partitions_of_others_are_forgotten_and_a_still_loop_is_stuck(turns: Turns) -> None:
    turns.turn()
    turns.archiver.turn([])
    assert (turns.metric("offset"), turns.archiver.ends()) == (None, {})
    client = Client(turns.status.application())
    assert client.get("/livez").status_code == 200
    turns.status.turned -= STILL_S + 1
    assert client.get("/livez").get_json() == {"status": "stuck"}
    turns.status.known = False
    assert client.get("/readyz").get_json() == {"status": "not archiving", "reasons": {}}
