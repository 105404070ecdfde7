"""The comparison of Redis' values with a replay: every kind of key, as it is and as it may be."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from confluent_kafka import Message

from streamstate.app import App, Count, Effect, Fold, FoldContext, Record, Source
from streamstate.errors import StreamStateError
from streamstate.keys import TEXT
from streamstate.state import operations as op
from streamstate.verify import replay
from streamstate.verify.replay import replayed

DAY = op.DAY_MS
TIMELINE = op.Insert("f", "k", {"old": 1, "new": 9}), op.Insert("f", "gone", {"old": 1}), op.ExpireBefore("f", 5)
HISTORY = op.AppendLines("h", "k", {"1": "a\n", "3": "b\n"}), op.AppendLines("h", "k", {"3": "c\n"})
Record_ = Record[str, list[op.Operation]]

decode = msgspec.json.Decoder(list[op.Operation]).decode


def fold(records: Sequence[Record_], context: FoldContext) -> Iterable[Effect]:
    assert all(record.stream_time > context.time for record in records)
    yield Count("records", len(records))
    for record in records:
        yield from record.value


def shared(records: Sequence[Record_], _context: FoldContext) -> Iterable[Effect]:
    yield op.Merge("all", add={"named": sum(record.key is not None for record in records), "records": len(records)})


SOURCE = Source("operations", TEXT, lambda _key, value: decode(value or b""))
MAKE = replayed(App("shop", (Fold((SOURCE,), fold, shared=shared),))).make


def message(number: int, *operations: op.Operation) -> Message:
    value = msgspec.json.encode(operations)
    return Message(topic="operations", partition=0, offset=number, key=b"key", value=value, timestamp=(1, number))


@pytest.mark.parametrize(
    ("operations", "key", "right", "wrong"),
    [
        ([op.Put("k", "é")], "k", ["é".encode()], [b"e", None]),
        ([op.Put("k", ""), op.Delete("k")], "k", [None], [b""]),
        ([op.Merge("k", {"n": 2}, least={"m": -1}), op.Merge("k", {"n": 1})], "k", [{b"n": b"3", b"m": b"-1"}], [{}]),
        ([op.IncrementScores("k", {"a": 2})], "k", [{b"a": -2.0}], [{b"a": 2.0}, {b"a": b"-2"}, None]),
        ([op.UpdateIndex("k", ["a", "b"], ["b"])], "k", [{b"a": 0.0}], [{b"a": 0.0, b"b": 0.0}]),
        ([op.UpdateIndex("k", ["a"], ["a"])], "k", [None], [{b"a": 0.0}]),
        ([op.PushRecent("k", {"a": 1, "b": 2}, 1)], "k", [{b"b": 2.0}], [{b"a": 1.0}]),
        ([op.Append("k", 1, "a", 1), op.Append("k", 3, "b", 1)], "k", [[(3, {b"text": b"b"})]], [[], b"b"]),
        (TIMELINE, "f:k", [{b"new": 9.0}, {b"new": 9.0, b"old": 1.0}], [{b"new": 8.0}, {b"old": 1.0}, None]),
        (TIMELINE, "f:gone", [None, {b"old": 1.0}], [{b"old": 7.0}, b"old"]),
        (TIMELINE, "f:early", [None, {b"old": 1.0}], [{b"old": 7.0}]),
        (TIMELINE, "f", [{b"k": 9.0}, {b"k": 1.0, b"gone": 1.0, b"early": 2.0}], [{b"k": 10.0}, {}, b"", None]),
        (TIMELINE, "f", [{b"k": 9.0, b"gone": 9.0}], [{b"k": 9.0, b"other": 7.0}]),
        (HISTORY, "h:k", [{b"1": b"a\n", b"3": b"b\nc\n"}], [{b"3": b"b\nc\n"}, None]),
        (HISTORY, "h:k", [{b"1": b"a\n", b"3.1": b"b\n", b"3#": b"1", b"3": b"c\n"}], [{b"1": b"a\n", b"3": b"b\n"}]),
        (HISTORY, "h", [{b"k": 1.0 * DAY}, {b"k": 0.0}], [{b"k": 2.0 * DAY}]),
        ((*HISTORY, op.ExpireDays("h", 2 * DAY)), "h:k", [{b"3": b"b\nc\n"}, {b"1": b"", b"3": b"b\nc\n"}], [{}]),
        ([], "other", [None], [b"", {b"a": 1.0}, {b"a": b"1"}]),
    ],
)
def test_a_key_equals_the_replay(
    operations: Sequence[op.Operation], key: str, right: list[Any], wrong: list[Any]
) -> None:
    made = MAKE()
    assert made.add(message(1, *operations), 1)
    assert [made.wrong(key, stored) for stored in right] == [None] * len(right)
    assert all(made.wrong(key, stored) for stored in wrong)
    assert (key in made.expected_keys()) == (None not in right)


def test_records_are_folded_in_batches_and_those_of_erased_users_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "BATCH", 2)
    made = MAKE()
    for number in range(1, 6):
        add = made.add_erased if number == 2 else made.add
        add(message(number, op.Merge(f"user:{number}", {"n": 1})), number)
    assert not made.add(Message(topic="operations", offset=6, key=b"key", value=b"?", timestamp=(1, 6)), 6)
    assert made.counts == {"records": 4}
    assert sorted(made.expected_keys()) == ["all", "user:1", "user:3", "user:4", "user:5"]
    assert made.wrong("all", {b"named": b"4", b"records": b"5"}) is None


def test_a_record_that_only_the_stream_folds_is_a_fault() -> None:
    made = MAKE()
    made.add(message(0), 0)
    with pytest.raises(StreamStateError, match="the fold of operations does not fold a record"):
        made.wrong("k", None)
