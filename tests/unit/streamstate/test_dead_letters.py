"""Dead letters and derived records: markers, reading of their topics, and the report of verify."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Message

from streamstate.app import App, Derived, Emit, Record
from streamstate.errors import BadRecord
from streamstate.kafka.dlq.records import (
    RECEIPT_HEADER,
    TOPIC_HEADER,
    TOPIC_ID_HEADER,
    dead_letters,
    derived,
    shortened,
)
from streamstate.kafka.dlq.topic import Choice, cause_of, is_receipt, letter_of, overview, stage_of
from streamstate.kafka.producer import Dated, Headers, Outgoing
from streamstate.keys import MARKER_HEADER, TEXT, Marker
from streamstate.processing.decode import DeadLetter, Stage
from streamstate.verify.derived_topics import DerivedTopicCheck, Effects, by_marker
from streamstate.verify.derived_topics import dead_letters as judged

# The markers of derived records, by which repeats are recognized.

APP = App("app", (), emits={"out": Derived(TEXT, str)})


def emits(*causes: tuple[str, int]) -> list[Emit]:
    return [Emit("out", b"key", b"value", Record(topic, None, None, offset, 0, 0)) for topic, offset in causes]


def message(record: Outgoing | Dated, offset: int = 0, written: int = 0) -> Message:
    topic, key, value, headers = record[:4]
    return Message(
        topic=topic, partition=2, offset=offset, timestamp=(1, written), key=key, value=value, headers=headers
    )


def markers(records: Sequence[Outgoing | Dated]) -> list[Marker | None]:
    return [Marker.from_headers(message(record).headers()) for record in records]


def test_records_of_one_cause_are_numbered() -> None:
    records = list(derived(APP, emits(("a", 5), ("a", 5), ("b", 5), ("a", 6), ("a", 5)), 3, {"a": "id-a", "b": "id_b"}))
    causes = [("id-a", 5, 0), ("id-a", 5, 1), ("id_b", 5, 0), ("id-a", 6, 0), ("id-a", 5, 2)]
    assert markers(records) == [Marker(topic, 3, offset, number) for topic, offset, number in causes]


@pytest.mark.parametrize("header", [b"", b"in:3:5", b"in:3:x:0", b"in: 3:5:0", b"in:3:1_0:0", b":::", b"\xff"])
def test_what_is_no_marker_is_none(header: bytes) -> None:
    assert Marker.from_headers(Message(topic="out", headers=[(MARKER_HEADER, header)]).headers()) is None
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


@pytest.mark.parametrize("key", ["in:3:\u00b2", "in:\u0667:5", "in:3:1_0", "in:3: 5"])
def test_what_names_no_offset_is_no_cause(key: str) -> None:
    letter = Message(topic="app-dlq", key=key.encode(), headers=[(TOPIC_ID_HEADER, b"id"), ("x-timestamp", b"1_0")])
    assert (cause_of(letter), letter_of(letter).timestamp) == (None, None)


# Dead letters, read from their topic.

BEFORE: Headers = [("trace", b"1"), ("x-stage", b"its own"), ("empty", None)]


def dead(offset: int, stage: Stage = "decode", reason: str = "why", headers: Headers = BEFORE) -> Outgoing:
    letter = DeadLetter("in", offset, 50, 0, b"key", b"value", stage, BadRecord(reason))
    (record,) = dead_letters(APP, [letter], ("in", 3), "id", {offset: headers})
    return record


def receipt(offset: int) -> Outgoing:
    return APP.dead_letters, f"in:3:{offset}".encode(), None, [(TOPIC_ID_HEADER, b"id"), (RECEIPT_HEADER, b"2:0")]


def test_a_letter_has_the_record_as_it_was_and_what_was_wrong() -> None:
    letter = letter_of(message(dead(7), 5, 9))
    assert (letter.partition, letter.offset, letter.written) == (2, 5, 9)
    assert (letter.topic, letter.cause, letter.timestamp) == ("in", ("id", 3, 7), 50)
    assert (letter.key, letter.value, letter.headers, letter.size) == (b"key", b"value", BEFORE, None)
    assert letter.reason == "decode: BadRecord: why"


def test_a_letter_of_a_record_that_was_a_letter_is_of_that_one() -> None:
    before = dead(7, "fold", "the first time")[3]
    letter = letter_of(message(dead(8, "decode", "again", before)))
    assert (letter.headers, letter.reason, letter.cause) == (before, "decode: BadRecord: again", ("id", 3, 8))


def test_a_letter_that_is_cut_says_how_long_its_value_was() -> None:
    letter = letter_of(message(shortened(APP, dead(7))))
    assert (letter.size, letter.cause, letter.stage) == (5, ("id", 3, 7), "decode")


@pytest.mark.parametrize("name", [RECEIPT_HEADER, "x-topic"])
def test_headers_of_the_record_do_not_make_a_letter_another_thing(name: str) -> None:
    record = message(dead(7, headers=[(name, b"x")]))
    assert not is_receipt(record)
    assert letter_of(record).stage == "decode"


def offsets(letters: Sequence[Message], choice: Choice) -> list[int]:
    return [letter.offset for letter in overview(letters, choice, 10).latest]


def test_letters_are_chosen_by_their_place_or_a_text_in_the_reason() -> None:
    letters = [message(dead(1, "fold", "too GREAT"), 1), message(dead(2), 2)]
    assert offsets(letters, Choice()) == [1, 2]
    assert offsets(letters, Choice(partition=2, offset=2)) == [2]
    assert offsets(letters, Choice(partition=1)) == []
    assert offsets(letters, Choice(reason="too great")) == [1]
    assert offsets(letters, Choice(reason="decode: bad")) == [2]


def test_an_overview_counts_each_record_once_and_has_the_latest() -> None:
    repeats = [message(dead(1), 0, 10), message(dead(1), 1, 40)]
    others = [message(dead(2, "fold"), 2, 30), message(dead(3), 3, 20), message(receipt(3), 4, 50)]
    seen = overview([*repeats, *others], Choice(), 2)
    assert seen.by_reason == {"decode: BadRecord": 2, "fold: BadRecord": 1}
    assert seen.by_place == {("in", 3): 3}
    assert seen.replayed == 1
    assert [letter.offset for letter in seen.latest] == [2, 3]


# What the folds send out, held against its causes: each at least once, and nothing else.

CONTENTS = [b"one", None, b"two"]


def effects_of() -> DerivedTopicCheck:
    """Of partition 3 of `in`, offsets 5 and 7 have effects; the state stands at 9."""
    effects = Effects()
    for offset, content in enumerate(CONTENTS, start=5):
        effects.add(offset, content)
    effects.reach(9)
    made = DerivedTopicCheck("out", by_marker, lambda caused: caused.value() or b"")
    made.expected["in", 3] = effects
    return made


def caused(cause: str, value: bytes) -> Message:
    return Message(topic="out", partition=1, offset=2, value=value, headers=[(MARKER_HEADER, cause.encode())])


def differing(records: Sequence[Message]) -> list[str]:
    return [str(difference) for difference in effects_of().differences(records)]


GOOD = [caused("in:3:5:0", b"one"), caused("in:3:7:0", b"two")]


def test_each_effect_may_come_several_times() -> None:
    assert differing([*GOOD, *GOOD]) == []


@pytest.mark.parametrize("cause", ["in:3:9:0", "in:2:5:0", "recreated:3:5:0"])
def test_causes_that_are_not_folded_do_not_count(cause: str) -> None:
    assert differing([*GOOD, caused(cause, b"another")]) == []


def test_a_missing_effect_is_named_by_its_cause() -> None:
    assert differing(GOOD[:1]) == ["in:3:7: is missing in out"]


def test_an_effect_that_was_too_large_for_the_topic_is_not_missing() -> None:
    assert list(effects_of().differences(GOOD[:1], {("in", 3, 7), ("in", 3, 100), ("other", 0, 0)})) == []


@pytest.mark.parametrize("wrong", [caused("in:3:7:0", b"other"), caused("in:3:6:0", b"one"), caused("in:3:0:0", b"")])
def test_another_content_is_a_difference(wrong: Message) -> None:
    cause = by_marker(wrong)
    assert cause is not None
    assert differing([*GOOD, wrong]) == [f"out:1:2: differs from the effect of in:3:{cause[2]}"]


@pytest.mark.parametrize("cause", ["", "in:3:5", "in:3:5:", "in", ":::", "a:b:c:d"])
def test_a_record_without_a_cause_is_a_difference(cause: str) -> None:
    assert differing([*GOOD, caused(cause, b"one")]) == ["out:1:2: names no cause"]


@pytest.mark.parametrize(("topic_id", "count"), [(b"id", 0), (b"of an earlier topic", 1)])
def test_a_dead_letter_names_its_cause_in_its_key_and_the_id_of_its_topic(topic_id: bytes, count: int) -> None:
    letters = judged("app-dlq")
    letters.expected["id", 3] = Effects()
    letters.expected["id", 3].add(0, (None,))
    letter = Message(topic="app-dlq", partition=0, offset=0, key=b"in:3:0", headers=[(TOPIC_ID_HEADER, topic_id)])
    assert len(list(letters.differences([letter]))) == count


def test_a_dead_letter_of_a_derived_record_is_judged_with_its_topic() -> None:
    headers: list[tuple[str, str | bytes | None]] = [(MARKER_HEADER, b"id:3:0:0"), (TOPIC_HEADER, b"out")]
    letter = Message(topic="app-dlq", partition=0, offset=0, key=b"id:3:0:0", headers=headers)
    assert list(judged("app-dlq").differences([letter])) == []


def test_effects_of_offsets_that_another_release_publishes_are_not_expected() -> None:
    check = effects_of()
    check.expected["in", 3].keep(6)
    assert list(check.differences([*GOOD, caused("in:3:5:0", b"of the other release")])) == []
    assert [str(difference) for difference in check.differences([])] == ["in:3:7: is missing in out"]
    check.expected["in", 3].keep(None)
    assert list(check.differences([])) == []
