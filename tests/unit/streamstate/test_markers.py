"""The markers of derived records, by which repeats are recognized."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Message

from streamstate.app import App, Derived, Emit, Record
from streamstate.kafka.dead_letters import dead_letters, derived, shortened
from streamstate.kafka.letters import cause_of, stage_of
from streamstate.kafka.producer import Outgoing
from streamstate.keys import TEXT
from streamstate.marker import HEADER, Marker
from streamstate.processing.decode import DeadLetter, Stage

APP = App("app", (), emits={"out": Derived(TEXT, str)})


def emits(*causes: tuple[str, int]) -> list[Emit]:
    return [Emit("out", b"key", b"value", Record(topic, None, None, offset, 0, 0)) for topic, offset in causes]


def message(record: Outgoing) -> Message:
    topic, key, value, headers = record
    return Message(topic=topic, key=key, value=value, headers=headers)


def markers(records: Sequence[Outgoing]) -> list[Marker | None]:
    return [Marker.from_headers(message(record).headers()) for record in records]


def test_records_of_one_cause_are_numbered() -> None:
    records = list(derived(APP, emits(("a", 5), ("a", 5), ("b", 5), ("a", 6), ("a", 5)), 3, {"a": "id-a", "b": "id_b"}))
    assert markers(records) == [
        Marker("id-a", 3, 5, 0),
        Marker("id-a", 3, 5, 1),
        Marker("id_b", 3, 5, 0),
        Marker("id-a", 3, 6, 0),
        Marker("id-a", 3, 5, 2),
    ]


@pytest.mark.parametrize("header", [b"", b"in:3:5", b"in:3:x:0", b":::", b"\xff"])
def test_what_is_no_marker_is_none(header: bytes) -> None:
    assert Marker.from_headers(Message(topic="out", headers=[(HEADER, header)]).headers()) is None
    assert Marker.from_headers(Message(topic="out").headers()) is None


def test_a_derived_record_that_is_too_large_keeps_its_marker() -> None:
    (record,) = derived(APP, emits(("a", 5)), 3, {"a": "id"})
    letter = message(shortened(APP, record))
    assert (letter.topic(), letter.key()) == ("app-dlq", b"id:3:5:0")
    assert Marker.from_headers(letter.headers()) == Marker("id", 3, 5, 0)
    assert dict(letter.headers() or [])["x-topic"] == b"out"
    assert cause_of(letter) is None


@pytest.mark.parametrize("stage", ["decode", "timestamp", "fold", "skip"])
def test_a_dead_letter_names_cause_and_stage_also_when_it_is_cut(stage: Stage) -> None:
    dead = DeadLetter("in", 7, 5, 0, b"key", b"value", stage, ValueError("x" * 5_000))
    (record,) = dead_letters(APP, [dead], ("in", 3), "id", {})
    for letter in (message(record), message(shortened(APP, record))):
        assert (cause_of(letter), stage_of(letter)) == (("id", 3, 7), stage)
