"""The order of a micro-batch's rows, against the same said in plain Python."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.spark.rows import by_partition, in_order, whole

TOPICS = ("b", "a", "table")
TYPES = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
NAMES = ("topic", "partition", "offset", "timestamp", "key", "value")
SCHEMA = pa.schema([pa.field(name, kind) for name, kind in zip(NAMES, TYPES, strict=True)])

places = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))
micro_batches = st.lists(st.tuples(places, st.integers(0, 9)), max_size=40)
stored = st.dictionaries(places, st.integers(0, 9))


def batch(drawn: list[tuple[tuple[str, int], int]]) -> pa.RecordBatch:
    """Offsets count up in each place; the places come mixed."""
    rows: list[dict[str, Any]] = []
    offsets: defaultdict[tuple[str, int], int] = defaultdict(int)
    for (topic, partition), timestamp in drawn:
        offset = offsets[topic, partition]
        offsets[topic, partition] += 1
        rows.append(dict(zip(NAMES, (topic, partition, offset, timestamp, b"k", None), strict=True)))
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def keys(rows: list[dict[str, Any]], times: dict[tuple[str, int], int]) -> list[tuple[bool, int, int]]:
    """Of each row whether it is no table's, its stream time and the rank of its topic."""
    so_far = defaultdict(int, times)
    found = []
    for row in rows:
        place = (row["topic"], row["partition"])
        so_far[place] = max(so_far[place], row["timestamp"])
        found.append((row["topic"] != "table", so_far[place], TOPICS.index(row["topic"])))
    return found


# The first call imports what Arrow needs.
@settings(deadline=None)
@given(micro_batches, stored)
def test_tables_come_first_then_stream_time_decides_then_the_topic(
    drawn: list[tuple[tuple[str, int], int]], times: dict[tuple[str, int], int]
) -> None:
    if not drawn:
        return
    rows = batch(drawn)
    ordered = in_order(rows, TOPICS, ["table"], times).to_pylist()
    assert keys(ordered, times) == sorted(keys(rows.to_pylist(), times))
    assert sorted(map(str, ordered)) == sorted(map(str, rows.to_pylist()))


@given(micro_batches)
def test_each_place_has_its_rows_in_the_order_of_their_offsets(drawn: list[tuple[tuple[str, int], int]]) -> None:
    rows = by_partition(batch(drawn))
    assert sum(map(len, rows.values())) == len(drawn)
    for place, some in rows.items():
        assert [offset for offset, *_ in some] == list(range(len(some)))
        assert [timestamp for _, timestamp, *_ in some] == [time for at, time in drawn if at == place]


@given(st.lists(micro_batches, max_size=4))
def test_a_whole_micro_batch_is_its_batches_one_after_the_other(drawn: list[list[tuple[tuple[str, int], int]]]) -> None:
    batches = [batch(some) for some in drawn]
    assert [row for one in whole(batches) for row in one.to_pylist()] == [
        row for one in batches for row in one.to_pylist()
    ]
