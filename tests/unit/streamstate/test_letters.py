"""Dead letters, read from their topic."""

from collections.abc import Sequence

import pytest
from confluent_kafka import Message

from streamstate.app import App, Derived, Emit, Record
from streamstate.errors import BadRecord
from streamstate.kafka.dead_letters import RECEIPT_HEADER, TOPIC_ID_HEADER, dead_letters, derived, shortened
from streamstate.kafka.letters import DERIVED, Choice, is_receipt, letter_of, overview
from streamstate.kafka.producer import Headers, Outgoing
from streamstate.keys import TEXT
from streamstate.processing.decode import DeadLetter, Stage

APP = App("app", (), emits={"out": Derived(TEXT, str)})
BEFORE: Headers = [("trace", b"1"), ("x-stage", b"its own"), ("empty", None)]


def message(record: Outgoing, offset: int = 0, written: int = 0) -> Message:
    topic, key, value, headers = record
    return Message(
        topic=topic, partition=2, offset=offset, timestamp=(1, written), key=key, value=value, headers=headers
    )


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


def test_a_letter_of_a_derived_record_names_its_topic_and_its_cause() -> None:
    emit = Emit("out", b"key", b"value", Record("in", None, None, 5, 0, 0))
    (record,) = derived(APP, [emit], 3, {"in": "id"})
    letter = letter_of(message(shortened(APP, record)))
    assert (letter.topic, letter.cause, letter.stage) == ("out", ("id", 3, 5), DERIVED)


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


def test_all_letters_are_counted_when_none_is_listed() -> None:
    seen = overview([message(dead(1)), message(dead(2, "fold"), 1)], Choice(), 0)
    assert seen.by_reason == {"decode: BadRecord": 1, "fold: BadRecord": 1}
    assert seen.latest == []
