"""Answers as columns, and the rows of a training set."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from devkit.registry import SERVICES
from devkit.registry import app as app_of
from streamstate.cli.answers.replay import offsets_at
from streamstate.errors import BadKey, Declined
from streamstate.history.answers.columns import Columns
from streamstate.history.answers.rows import by_partition, read, require_within
from streamstate.history.answers.times import Span
from streamstate.history.archive.uris import require_empty
from streamstate.keys import LONG, partition_of
from streamstate.state.store import TopicPartition


class Inner(msgspec.Struct, rename="camel"):
    of_day: int
    share: float | int | None


class Answer(msgspec.Struct, rename={"from_": "from"}):
    key: int
    from_: Annotated[int, msgspec.Meta(ge=0)]
    inner: Inner | None
    listed: list[Inner]
    by_name: dict[str, list[int]]
    raw: msgspec.Raw
    either: int | str
    moment: datetime
    kind: Literal["a", "b"] = "a"
    absent: int | msgspec.UnsetType = msgspec.UNSET
    anything: Any = None


ANSWER = Answer(
    1,
    2,
    Inner(3, 0.5),
    [Inner(4, None), Inner(5, 1)],
    {"x": [1], "y": []},
    msgspec.Raw(b'{"a": 1}'),
    "text",
    datetime(2026, 1, 1, tzinfo=UTC),
)


def test_a_member_is_a_column_of_its_type() -> None:
    columns = Columns(Answer)
    inner = pa.struct([("ofDay", pa.int64()), ("share", pa.float64())])
    assert dict(zip(columns.schema.names, columns.schema.types, strict=True)) == {
        "from": pa.int64(),
        "inner": inner,
        "listed": pa.list_(inner),
        "by_name": pa.map_(pa.string(), pa.list_(pa.int64())),
        "raw": pa.string(),
        "either": pa.string(),
        "moment": pa.string(),
        "kind": pa.string(),
        "absent": pa.int64(),
        "anything": pa.string(),
    }
    values = [array.to_pylist() for array in columns.arrays([ANSWER, None])]
    assert [value[0] for value in values] == [
        2,
        {"ofDay": 3, "share": 0.5},
        [{"ofDay": 4, "share": None}, {"ofDay": 5, "share": 1.0}],
        [("x", [1]), ("y", [])],
        '{"a":1}',
        '"text"',
        "2026-01-01T00:00:00Z",
        "a",
        None,
        None,
    ]
    assert [value[1] for value in values] == [None] * len(values)


@pytest.mark.parametrize("service", SERVICES)
def test_every_view_of_the_services_has_columns(service: str, tmp_path: Path) -> None:
    for view in app_of(service).views:
        columns = Columns(type(view.example))
        table = pa.table(columns.arrays([view.example]), schema=columns.schema)
        pq.write_table(table, tmp_path / "x.parquet")
        assert pq.read_table(tmp_path / "x.parquet").equals(table)


MOMENTS = (
    pa.array([1_000, 2_000]),
    pa.array(["1970-01-01T00:00:01Z", "1970-01-01T01:00:02+01:00"]),
    pa.array([1_000, 2_000], pa.timestamp("ms")),
    pa.array([1_000_000_500, 2_000_000_500], pa.timestamp("ns", tz="Europe/Berlin")),
)


@pytest.mark.parametrize("times", MOMENTS, ids=lambda times: str(times.type))
def test_times_are_milliseconds_timestamps_or_texts(times: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [0, 0], "time": times, "key": [7, 8]}), tmp_path / "rows")
    rows = read(tmp_path / "rows")
    assert rows["key"].to_pylist() == ["7", "8"]
    assert rows["time"].cast(pa.int64()).to_pylist() == [1_000, 2_000]


def test_texts_of_all_forms_may_be_mixed(tmp_path: Path) -> None:
    texts = ["1970-01-01T00:00:01", "1970-01-01 01:00:01+01:00", " 1970-01-01T00:00:01Z", "1000"]
    pq.write_table(pa.table({"key": [7] * len(texts), "time": texts}), tmp_path / "rows")
    assert read(tmp_path / "rows")["time"].cast(pa.int64()).to_pylist() == [1_000] * len(texts)


def test_a_training_set_needs_an_empty_folder(tmp_path: Path) -> None:
    require_empty(str(tmp_path))
    require_empty(str(tmp_path / "new"))
    (tmp_path / "00000.parquet").touch()
    with pytest.raises(Declined, match="has files already"):
        require_empty(str(tmp_path))


def test_rows_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("key,time,label\n07,2026-01-01T09:00:00Z,x\n8,2026-01-01T09:00:00.250Z,y\n")
    rows = read(tmp_path / "rows.csv")
    assert rows["key"].to_pylist() == ["07", "8"]
    assert rows["time"].to_pylist()[1] == datetime(2026, 1, 1, 9, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("key,time\n1,2026-01-01\n2,yesterday\n", "has the time 'yesterday' in row 2; write 2026-01-31T09:00:00Z, or"),
        ("key;time\n1;2\n", "has no columns key and time .*, separated by commas in CSV"),
        *((text, "has ") for text in ("key,at\n1,2\n", "key,time\n1,yesterday\n", "key,time\n1,\n", "key,time\n")),
    ],
)
def test_a_fault_of_the_rows_says_where_it_is(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(Declined, match=rf"rows\.csv {reason}"):
        read(tmp_path / "rows.csv")


NOW, SPAN = 1_795_680_000_000, Span(1_700_000_000_000, 1_795_700_000_000)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (NOW // 1_000, "it is in seconds: give milliseconds since 1970"),
        (NOW * 1_000, "it is in microseconds: give milliseconds"),
        (NOW * 1_000_000, "it is in nanoseconds: give milliseconds"),
        (20260131, "it is in the form yyyymmdd: give milliseconds"),
        (SPAN.last + 1, "leave such times out"),
        (SPAN.first - 1, "leave such times out"),
    ],
)
def test_a_time_out_of_the_times_of_the_records_is_refused_with_row_and_unit(number: int, advice: str) -> None:
    def rows(*times: int) -> Any:
        return pa.table({"key": ["7"] * len(times), "time": pa.array(times, pa.timestamp("ms", tz="UTC"))})

    require_within(Path("rows"), rows(*SPAN), SPAN)
    with pytest.raises(
        Declined, match=rf"rows has the time {number} .*in row 2, and the records are from .*; {advice}"
    ):
        require_within(Path("rows"), rows(NOW, number), SPAN)


def test_seconds_are_no_times_after_a_record_of_1970_either() -> None:
    assert [moment in Span(5, NOW) for moment in (5, NOW // 1_000, NOW - 1)] == [True, False, True]
    assert Span(5, NOW).unit(NOW // 1_000 - 1) == "seconds"


def test_rows_are_ordered_by_time_within_their_partition() -> None:
    keys = [str(number % 50) for number in range(400)]
    times = pa.array([(number * 7919) % 1_000 for number in range(400)], pa.timestamp("ms", tz="UTC"))
    parts = dict(by_partition(pa.table({"key": keys, "time": times}), LONG, 8))
    assert sum(part.num_rows for part in parts.values()) == 400
    for partition, part in parts.items():
        moments = part["time"].cast(pa.int64()).to_pylist()
        assert moments == sorted(moments, key=lambda moment: moment or 0)
        assert {partition_of(LONG.encode(int(key or "")), 8) for key in part["key"].to_pylist()} == {partition}


def test_a_text_that_is_no_key_is_refused() -> None:
    rows = pa.table({"key": ["x"], "time": pa.array([1], pa.timestamp("ms", tz="UTC"))})
    with pytest.raises(BadKey, match="'x' is no key"):
        next(by_partition(rows, LONG, 1))


class Ends:
    """Logs of a topic with two partitions."""

    view_topics = ("plays",)
    counts: ClassVar = {"plays": 2}

    def ends(self, partitions: Collection[int]) -> dict[TopicPartition, int]:
        return {("plays", partition): 10 for partition in partitions}


@pytest.mark.parametrize(
    ("position", "reason"),
    [("", "no offset of plays:1"), ("plays:*=9", "long header"), ("plays:1=11", "plays:1 ends at the offset 10")],
)
def test_a_position_without_a_needed_offset_or_beyond_the_end_is_refused(position: str, reason: str) -> None:
    logs: Any = Ends()
    assert offsets_at("plays:0=99, plays:1=10", logs, {1}) == {("plays", 0): 99, ("plays", 1): 10}
    with pytest.raises(Declined, match=reason):
        offsets_at(position, logs, {1})
