"""The history of a topic: archived records first, then Kafka's, and never a silent gap between both."""

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.files import SCHEMA, Archive, ReplacedTopic
from streamstate.history.archive.segments import Segment
from streamstate.kafka import history
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.security import OPEN
from streamstate.state.store import Origin

PLACE = ("plays", 3)


class Topics:
    """A topic with the records from `begin` on, before `end`, in Kafka."""

    bootstrap = "kafka:9092"
    security = OPEN

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end

    def origin(self, _topic: str) -> Origin:
        return Origin("id", 4)

    def ends(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, self.end)

    def history(self, places: Sequence[tuple[str, int]]) -> dict[str, float]:
        return {topic: 0.0 if self.begin else 60.0 for topic, _ in places}

    def begins(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(places, self.begin)

    def timestamps(self, _places: Sequence[tuple[str, int]]) -> list[int]:
        return [2_000, 3_000]


class Consumer:
    """A consumer of these topics. `opened` are the offsets at which consumers were assigned."""

    opened: ClassVar[list[int]] = []

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def get_watermark_offsets(self, _place: object, timeout: float) -> tuple[int, int]:
        assert timeout
        return self._topics.begin, self._topics.end

    def assign(self, places: Sequence[Any]) -> None:
        self._at = places[0].offset
        self.opened.append(self._at)

    def poll(self, _timeout: float) -> Message:
        if self._at == self._topics.end:
            return Message(topic="plays", partition=3, offset=self._at, error=KafkaError(KafkaError._PARTITION_EOF))
        self._at += 1
        return Message(topic="plays", partition=3, offset=self._at - 1, value=b"kafka", timestamp=(1, 0))

    def consume(self, _count: int, _timeout: float) -> list[Message]:
        return []

    def close(self) -> None:
        pass


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(str(tmp_path))


@pytest.fixture
def made(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Any:
    def history_of(begin: int, end: int, *archived: tuple[int, int], topic_id: str = "id") -> TopicHistory:
        topics: Any = Topics(begin, end)
        monkeypatch.setattr(history, "consumer", lambda *_: Consumer(topics))
        Consumer.opened = []
        for first, last in archived:
            archive.write(PLACE, Segment(first, last), topic_id, rows(range(first, last + 1)))
        return TopicHistory(topics, archive)

    return history_of


def rows(offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
    columns = {"timestamp": 1_000, "timestamp_type": 1, "key": b"k", "value": b"file"}
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    yield pa.RecordBatch.from_pylist(
        [{"offset": offset, **columns, "headers": headers if offset % 2 else None} for offset in offsets], schema=SCHEMA
    )


def test_the_times_of_archived_records_count(made: Any) -> None:
    assert {*made(4, 10, (0, 3), (4, 6)).timestamps([PLACE])} == {1_000, 2_000, 3_000}
    assert made(4, 10).timestamps([("songs", 0)]) == [2_000, 3_000]


def read(log: history.TopicLog, offset: int) -> list[tuple[int | None, bytes | None]]:
    return [(message.offset(), message.value()) for message in log.up_to(offset)]


def test_archived_records_come_first(made: Any) -> None:
    with made(4, 10, (0, 3), (4, 6)).log(PLACE) as log:
        assert read(log, 2) == [(0, b"file"), (1, b"file")]
        assert read(log, 8) == [*((n, b"file") for n in range(2, 7)), (7, b"kafka")]
        assert read(log, 10) == [(8, b"kafka"), (9, b"kafka")]
    assert Consumer.opened == [7]


def test_a_log_begins_at_any_offset(made: Any) -> None:
    with made(4, 10, (0, 5)).log(PLACE, 5) as log:
        assert read(log, 7) == [(5, b"file"), (6, b"kafka")]
    with made(4, 10).log(PLACE, 8) as log:
        assert read(log, 10) == [(8, b"kafka"), (9, b"kafka")]


def test_an_archived_record_is_a_message(made: Any) -> None:
    with made(9, 10, (0, 9)).log(PLACE) as log:
        plain, marked = log.up_to(2)
    assert (plain.topic(), plain.partition(), plain.timestamp(), plain.key()) == ("plays", 3, (1, 1_000), b"k")
    assert (plain.headers(), marked.headers()) == (None, [("h", b"1"), ("h", None)])


def test_records_archived_meanwhile_are_read_from_their_file(made: Any, archive: Archive) -> None:
    with made(3, 10, (0, 3)).log(PLACE) as log:
        assert len(read(log, 4)) == 4
        archive.write(PLACE, Segment(4, 5), "id", rows([4, 5]))
        assert read(log, 7) == [(4, b"file"), (5, b"file"), (6, b"kafka")]


def test_a_segment_without_records_at_its_end_is_passed(made: Any, archive: Archive) -> None:
    archive.write(PLACE, Segment(0, 6), "id", rows([0, 1]))
    with made(7, 9).log(PLACE) as log:
        assert read(log, 5) == [(0, b"file"), (1, b"file")]
        assert read(log, 9) == [(7, b"kafka"), (8, b"kafka")]


@pytest.mark.parametrize("archived", [(), ((0, 3),), ((5, 7),), ((0, 3), (5, 7))], ids=str)
def test_records_in_neither_are_an_error(made: Any, archived: Sequence[tuple[int, int]]) -> None:
    with made(8, 9, *archived).log(PLACE) as log:
        lacking = 4 if (0, 3) in archived else 0
        with pytest.raises(StreamStateError, match=f"begins at offset 8 in Kafka, and .* from offset {lacking} on"):
            read(log, 9)


def test_records_of_a_topic_created_anew_are_refused(made: Any) -> None:
    with made(0, 9, (0, 3), topic_id="old").log(PLACE) as log, pytest.raises(ReplacedTopic):
        read(log, 9)


@pytest.mark.parametrize(
    ("archived", "first"),
    [((), 5), (((0, 4),), 0), (((0, 3),), 5), (((0, 2), (3, 7)), 0), (((0, 1), (3, 7)), 3), (((5, 7),), 5)],
    ids=str,
)
def test_history_begins_where_archive_and_kafka_have_all(
    made: Any, archived: Sequence[tuple[int, int]], first: int
) -> None:
    assert made(5, 9, *archived).begins([PLACE]) == {PLACE: first}


@pytest.mark.parametrize(
    ("begin", "archived", "left"),
    [(0, (), 60.0), (5, (), 0.0), (0, ((0, 1),), inf), (5, ((0, 6),), inf), (5, ((0, 3),), 0.0), (5, ((2, 6),), 0.0)],
    ids=str,
)
def test_retention_harms_no_archived_record(
    made: Any, begin: int, archived: Sequence[tuple[int, int]], left: float
) -> None:
    assert made(begin, 9, *archived).left([PLACE]) == {"plays": left}


@pytest.mark.parametrize(
    ("position", "archived", "lacking"),
    [
        (0, ((0, 3), (6, 9)), "the offsets 4 to 5 of plays:3"),
        (0, ((0, 3),), "the offsets 4 to 7 of plays:3"),
        (2, ((2, 3),), "the offsets 4 to 7 of plays:3"),
        (0, ((0, 3), (4, 7)), ""),
        (5, ((0, 3), (6, 9)), ""),
        (8, ((0, 3),), ""),
        (0, ((4, 9),), ""),
    ],
    ids=str,
)
def test_a_gap_on_the_way_is_refused(
    made: Any, position: int, archived: Sequence[tuple[int, int]], lacking: str
) -> None:
    history = made(8, 12, *archived)
    if lacking:
        with pytest.raises(Misconfigured, match=f"lacks {lacking}, which Kafka has deleted: bring their file back"):
            history.require_no_gap({PLACE: position})
    else:
        history.require_no_gap({PLACE: position})


def test_an_archive_ends_at_its_first_gap_and_must_be_of_the_topic(made: Any, archive: Archive) -> None:
    history = made(0, 12, (0, 3), (4, 5), (8, 9))
    assert history.archived({PLACE: 2, ("plays", 1): 0}) == {PLACE: 6}
    assert history.archived({PLACE: 6}) == {}
    archive.write(PLACE, Segment(10, 11), "old", rows([10, 11]))
    with pytest.raises(Misconfigured, match="a topic plays with the id old, and Kafka has id"):
        history.archived({PLACE: 8})
