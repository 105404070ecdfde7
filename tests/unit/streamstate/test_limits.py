"""The limits of a stream: failures before a stop, and accepted timestamps."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Fold, Source
from streamstate.errors import BatchTooLarge, TooManyDeadLetters
from streamstate.keys import TEXT
from streamstate.processing.decode import DeadLetter, RawRecord, Refusal
from streamstate.processing.limits import CommitLimit, DeadLetterLimit, Limits, TimestampLimit
from streamstate.spark.rows import by_partition, gather, markers, whole_partitions
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver

BAD = b"\xff"
APP = App("app", (Fold((Source("in", TEXT, lambda _key, value: (value or b"").decode()),), lambda _records, _: ()),))


def raw(start: int, good: int, bad: int) -> dict[str, list[RawRecord]]:
    values = [b"good"] * good + [BAD] * bad
    return {"in": [(offset, offset, b"key", value) for offset, value in enumerate(values, start)]}


def driver(most: int, share: float, commit_records: int = 10) -> Driver:
    limits = Limits(ready=CommitLimit(commit_records), dead_letters=DeadLetterLimit(most, share))
    return Driver(APP, MemoryStore(), limits=limits)


def position(driven: Driver) -> int:
    return driven.store.read({0: []})[0].positions.get("in", 0)


def test_a_batch_of_too_many_dead_letters_is_refused_as_a_whole() -> None:
    driven = driver(5, 0.1)
    driven.feed(0, raw(0, 40, 4))
    with pytest.raises(TooManyDeadLetters, match=r"6 of the last 59 records .* _DEAD_LETTER_SHARE to accept"):
        driven.feed(0, raw(44, 13, 2))
    assert (position(driven), len(driven.dead)) == (44, 4)


@pytest.mark.parametrize(("most", "share"), [(6, 0.1), (5, 0.11), (0, 1.0)])
def test_few_or_a_small_share_are_accepted(most: int, share: float) -> None:
    driven = driver(most, share)
    driven.feed(0, raw(0, 40, 4))
    driven.feed(0, raw(44, 14, 2))
    assert (position(driven), len(driven.dead)) == (60, 6)


def test_a_fold_that_fails_is_stopped_too() -> None:
    app = App("app", (Fold((Source("in", TEXT, lambda _key, _value: 0),), lambda records, _: [1 // records[0].value]),))
    driven = Driver(app, MemoryStore(), limits=Limits(dead_letters=DeadLetterLimit(3, 0.1)))
    with pytest.raises(TooManyDeadLetters):
        driven.feed(0, raw(0, 100, 0))
    assert (position(driven), len(driven.dead)) == (3, 3)


def test_only_the_last_records_count() -> None:
    limit = DeadLetterLimit(100, 0.1)
    for _ in range(50):
        limit.add(1_000, 20)
    letters = [(3, DeadLetter("in", n, 0, 0, None, None, "decode", ValueError())) for n in range(880)]
    limit.require(1_000, letters)
    limit.add(1_000, 800)
    first = r"decode: ValueError at in:3:0, decode: ValueError at in:3:1, decode: ValueError at in:3:2"
    with pytest.raises(TooManyDeadLetters, match=rf"1101 of the last 11000 records are dead letters \({first}\)"):
        limit.require(1_000, letters[:121])


def test_a_record_ahead_of_the_clock_is_refused_where_kafka_takes_any_timestamp() -> None:
    refused = {7: Refusal("timestamp", "why")}
    limit = TimestampLimit({"any": 1_000}, {("bounded", 3): refused})
    assert limit.admission(("any", 0), 5_000).latest == 6_000
    bounded = limit.admission(("bounded", 3), 5_000)
    assert bounded.latest > 10**18
    assert bounded.refused == refused


# The rows of a micro-batch by topic and partition.

TOPICS = ("b", "a", "table")
TYPES = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
NAMES = ("topic", "partition", "offset", "timestamp", "key", "value")
SCHEMA = pa.schema([pa.field(name, kind) for name, kind in zip(NAMES, TYPES, strict=True)])

places = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))
micro_batches = st.lists(st.tuples(places, st.integers(0, 9)), max_size=40)


def batch(drawn: list[tuple[tuple[str, int], int]]) -> pa.RecordBatch:
    """Offsets count up in each place; the places come mixed."""
    rows: list[dict[str, Any]] = []
    offsets: defaultdict[tuple[str, int], int] = defaultdict(int)
    for (topic, partition), timestamp in drawn:
        offset = offsets[topic, partition]
        offsets[topic, partition] += 1
        rows.append(dict(zip(NAMES, (topic, partition, offset, timestamp, b"k", None), strict=True)))
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def place_at(rows: pa.RecordBatch, row: int) -> tuple[str, int]:
    return rows["topic"][row].as_py(), rows["partition"][row].as_py()


# The first call imports what Arrow needs.
@given(micro_batches)
def test_each_place_has_its_rows_in_the_order_of_their_offsets(drawn: list[tuple[tuple[str, int], int]]) -> None:
    rows = by_partition(batch(drawn))
    assert sum(map(len, rows.values())) == len(drawn)
    for place, raw in rows.items():
        assert [offset for offset, *_ in raw] == list(range(len(raw)))
        assert [timestamp for _, timestamp, *_ in raw] == [time for at, time in drawn if at == place]


@given(micro_batches, st.integers(1, 9))
def test_a_micro_batch_is_gathered_from_its_batches(drawn: list[tuple[tuple[str, int], int]], size: int) -> None:
    rows = batch(drawn)
    gathered = gather((rows.slice(start, size) for start in range(0, len(rows), size)), len(drawn))
    assert [by_partition(whole) for whole in gathered] == ([by_partition(rows)] if drawn else [])


def test_a_micro_batch_of_too_many_rows_is_refused() -> None:
    rows = batch([(("a", 0), 1)] * 9)
    with pytest.raises(BatchTooLarge, match="more than 8 records came at once"):
        gather([rows.slice(0, 5), rows.slice(5, 4)], 8)


@given(micro_batches, st.integers(1, 9), st.integers(1, 20))
def test_partitions_are_cut_only_where_they_have_most_rows(
    drawn: list[tuple[tuple[str, int], int]], size: int, most: int
) -> None:
    rows = batch(sorted(drawn, key=lambda row: row[0]))
    whole = list(whole_partitions((rows.slice(start, size) for start in range(0, len(rows), size)), most))
    assert [row for piece in whole for row in piece.to_pylist()] == rows.to_pylist()
    assert len(whole) <= 1 + 2 * len(drawn) // most
    for piece, following in pairwise(whole):
        if place_at(piece, -1) == place_at(following, 0):
            assert piece.num_rows == most
            assert len(by_partition(piece)) == 1


def test_rows_that_wait_for_more_of_their_partition_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamstate.spark.rows.MOST_BYTES", 4_000)
    large = pa.array([bytes(1_000)] * 9, pa.binary())
    rows = batch([(("a", 0), 1)] * 9).set_column(5, "value", large)
    whole = list(whole_partitions((rows.slice(start, 1) for start in range(9)), 1_000))
    assert [piece.num_rows for piece in whole] == [4, 4, 1]


@given(micro_batches)
def test_markers_are_known_by_place_and_offset(drawn: list[tuple[tuple[str, int], int]]) -> None:
    rows = batch(drawn)
    texts = [b"%d" % number if number % 2 else None for number in range(len(rows))]
    marked = rows.append_column("marker", pa.array(texts, pa.binary()))
    by_place = markers(marked)
    for row, text in zip(rows.to_pylist(), texts, strict=True):
        assert by_place.get((row["topic"], row["partition"]), {}).get(row["offset"]) == text
    assert markers(rows) == {}
