"""Archived records on their way to a fold: merged by stream time in bounded memory, and shared among tasks."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Fold, Source
from streamstate.keys import TEXT
from streamstate.spark.backlog.archived import Stretch, plan, shared
from streamstate.spark.backlog.merging import Cursor, merged, sized
from streamstate.state.store import TopicPartition

Rows = list[tuple[int, int]]
"""Offset and stream time."""

TIMES = st.lists(st.integers(0, 12), max_size=40)


def batches(times: Sequence[int], size: int) -> Iterator[pa.RecordBatch]:
    columns = {"offset": [*range(len(times))], "timestamp": [*times]}
    yield from sized(iter([pa.RecordBatch.from_pydict(columns)] if times else []), size)


def in_order(topics: Sequence[Sequence[int]], before: int | None = None) -> list[tuple[int, int, int]]:
    """Stream time, topic and offset of the records before the stream time `before`, in the order of one merge."""
    found = []
    for topic, times in enumerate(topics):
        reached = 0
        for offset, time in enumerate(times):
            reached = max(reached, time)
            if before is None or reached < before:
                found.append((reached, topic, offset))
    return sorted(found)


@given(st.lists(TIMES, min_size=1, max_size=3), st.integers(1, 9), st.none() | st.integers(0, 14))
def test_pieces_are_in_the_order_of_one_merge(topics: list[list[int]], size: int, before: int | None) -> None:
    cursors = {(str(topic), 0): Cursor(batches(times, size), 0, before) for topic, times in enumerate(topics)}
    expected, taken = in_order(topics, before), 0
    for piece in merged(cursors):
        rows = {
            (int(topic), int(offset)) for (topic, _), batch in piece.items() for offset in batch["offset"].to_numpy()
        }
        assert 0 < len(rows) <= size * len(topics)
        assert rows == {(topic, offset) for _, topic, offset in expected[taken : taken + len(rows)]}
        taken += len(rows)
    assert taken == len(expected)


@given(TIMES, st.integers(1, 9))
def test_a_single_topic_keeps_its_batches(times: list[int], size: int) -> None:
    pieces = [piece["0", 0].num_rows for piece in merged({("0", 0): Cursor(batches(times, size))})]
    assert pieces == [size] * (len(times) // size) + [len(times) % size] * (len(times) % size > 0)


@given(st.lists(st.integers(0, 20), max_size=9), st.integers(1, 9))
def test_batches_get_one_size(lengths: list[int], size: int) -> None:
    given = [pa.RecordBatch.from_pydict({"offset": list(range(length))}) for length in lengths]
    got = [batch.num_rows for batch in sized(given, size)]
    assert sum(got) == sum(lengths)
    assert all(rows == size for rows in got[:-1])


def test_large_records_end_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamstate.spark.backlog.merging._BYTES", 32)
    given = [pa.RecordBatch.from_pydict({"offset": [1, 2, 3]}) for _ in range(4)]
    assert [batch.num_rows for batch in sized(given, 100)] == [6, 6]
    assert [batch.num_rows for batch in sized(given, 4)] == [4, 4, 4]


def test_a_later_start_has_the_stream_time_of_the_state() -> None:
    [piece] = merged({("a", 0): Cursor(batches([3, 5], 9), time=9), ("b", 0): Cursor(batches([8], 9), before=9)})
    assert {place: batch.num_rows for place, batch in piece.items()} == {("a", 0): 2, ("b", 0): 1}


def test_tasks_get_equal_shares_and_whole_partitions() -> None:
    stretches = [Stretch(p, {topic: (0, size)}, None) for p, size in enumerate((50, 30, 20)) for topic in ("a", "b")]
    lists = shared(stretches, 2)
    assert [{each.partition for each in held} for held in lists] == [{0}, {1, 2}]
    assert [len(held) for held in shared(stretches, 9)] == [2, 2, 2]


class TopicHistory:
    """Archived ends, and the first and last offsets of Kafka, by place."""

    def __init__(self, ends: dict[TopicPartition, int], kafka: dict[TopicPartition, tuple[int, int]]) -> None:
        self._ends, self._kafka = ends, kafka
        self.topics: Any = self

    def archived(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {place: end for place, end in self._ends.items() if end > offsets.get(place, end)}

    def begins(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {place: self._kafka[place][0] for place in offsets}

    def ends(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {place: self._kafka[place][1] for place in offsets}

    def first_timestamp(self, _place: TopicPartition, offset: int) -> int:
        return 1_000 + offset


def app(*topics: tuple[str, ...]) -> App:
    folds = [[Source(topic, TEXT, lambda _key, value: value) for topic in of_fold] for of_fold in topics]
    return App("kept", tuple(Fold(tuple(sources), lambda _records, _context: ()) for sources in folds))


def planned(history: Any, app: App, offsets: dict[TopicPartition, int], most: int = 5) -> list[Stretch]:
    return plan(history, app, offsets, most)


@pytest.mark.parametrize(
    ("position", "begin", "found"),
    [(0, 3, True), (7, 3, False), (4, 3, True), (5, 3, False), (9, 9, False), (8, 9, True), (10, 3, False)],
)
def test_an_archive_is_read_where_kafka_lacks_records_or_it_has_many(position: int, begin: int, *, found: bool) -> None:
    history = TopicHistory({("a", 0): 10}, {("a", 0): (begin, 20)})
    expected = [Stretch(0, {"a": (position, 10)}, None)] if found else []
    assert planned(history, app(("a",)), {("a", 0): position}) == expected


def test_merged_topics_end_before_the_first_record_that_only_kafka_has() -> None:
    kafka = {("a", 0): (9, 20), ("b", 0): (0, 30), ("c", 0): (0, 5)}
    offsets = dict.fromkeys(kafka, 0)
    merging = app(("a", "b", "c"))
    [stretch] = planned(TopicHistory({("a", 0): 10, ("b", 0): 30}, kafka), merging, offsets)
    assert stretch == Stretch(0, {"a": (0, 10), "b": (0, 30)}, 1_000)
    [stretch] = planned(TopicHistory({("a", 0): 10, ("b", 0): 25, ("c", 0): 5}, kafka), merging, offsets)
    assert stretch.before == 1_010
    [stretch] = planned(TopicHistory({("a", 0): 20, ("b", 0): 30, ("c", 0): 5}, kafka), merging, offsets)
    assert stretch.before is None
