"""Dead letters and derived records: markers, reading of their topics, and the report of verify."""

from collections.abc import Sequence

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from streamstate.app import App, Derived, Emit, Record
from streamstate.errors import BadRecord
from streamstate.kafka.dlq.records import (
    RECEIPT_HEADER,
    TOPIC_ID_HEADER,
    dead_letters,
    derived,
    shortened,
)
from streamstate.kafka.dlq.topic import Choice, cause_of, is_receipt, letter_of, overview, stage_of
from streamstate.kafka.producer import Dated, Headers, Outgoing
from streamstate.keys import MARKER_HEADER, TEXT, Marker
from streamstate.processing.decode import DeadLetter, Stage
from streamstate.processing.fold_batch import FoldResult
from streamstate.profile import profile_app
from streamstate.state.store import Claim, Commit, Origin
from streamstate.verify.outputs import GONE, Caused, Collector, OutputCheck, digest
from streamstate.verify.outputs import derived as output_of
from streamstate.verify.outputs import letter as read_letter
from tests.worked_profile import REKEYED

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


def caused_by(*, whole: bool = True) -> Caused:
    """Of partition 3 of `in`, offset 5 has one output, 7 has two; the state stands at 9."""
    made = Caused(whole, reached=9)
    for offset, value in ((5, b"one"), (7, b"two"), (7, b"three")):
        made.add(offset, "out", digest((b"key", value, None)))
    return made


def caused(cause: str, value: bytes | None, kind: int = 1) -> Message:
    headers: Headers = [(MARKER_HEADER, cause.encode())]
    return Message(topic="out", partition=1, offset=2, key=b"key", value=value, headers=headers, timestamp=(kind, 5))


def differing(records: Sequence[Message], of: Caused | None = None, replaced: Sequence[Marker] = ()) -> list[str]:
    check = OutputCheck({("in", 3): of or caused_by()}, lambda _place, offset: offset != 8)
    for marker in replaced:
        check.replaced(marker)
    wrong = (check.wrong("out", output_of(record, dated=False)) for record in records)
    return [*filter(None, wrong), *map(str, check.missing())]


GOOD = [caused("in:3:5:0", b"one"), caused("in:3:7:0", b"two"), caused("in:3:7:1", b"three")]


def test_each_output_may_come_several_times() -> None:
    assert differing([*GOOD, *GOOD]) == []


@pytest.mark.parametrize("cause", ["in:3:9:0", "in:2:5:0", "recreated:3:5:0", "in:3:8:0"])
def test_causes_that_are_not_folded_or_of_another_release_do_not_count(cause: str) -> None:
    assert differing([*GOOD, caused(cause, b"another")]) == []


def test_a_missing_output_is_named_by_its_cause() -> None:
    assert differing(GOOD[:2]) == ["in:3:7: is missing in out"]


def test_an_output_that_was_too_large_for_the_topic_is_not_missing() -> None:
    assert (
        differing(GOOD[:2], replaced=[Marker("in", 3, 7, 1), Marker("in", 3, 100, 0), Marker("other", 0, 0, 0)]) == []
    )


def test_an_output_that_kafka_may_have_deleted_is_not_missing() -> None:
    kept = caused_by()
    kept.contents[0] = GONE
    assert differing(GOOD[1:], kept) == []


@pytest.mark.parametrize("wrong", ["in:3:7:0", "in:3:6:0", "in:3:0:0", "in:3:5:1"])
def test_another_content_or_an_output_without_a_cause_is_a_difference(wrong: str) -> None:
    fault = f"differs from the effect of {wrong.rpartition(':')[0]}"
    assert differing([*GOOD, caused(wrong, b"other")]) == [fault]


def test_of_a_deleted_user_only_the_marker_is_left_in_the_archive() -> None:
    assert differing([*GOOD[:2], caused("in:3:7:1", None, TIMESTAMP_NOT_AVAILABLE)]) == []
    assert differing([*GOOD, caused("in:3:6:0", b"of a deleted user")], caused_by(whole=False)) == []


@pytest.mark.parametrize("cause", ["", "in:3:5", "in:3:5:", "in", ":::", "a:b:c:d"])
def test_a_record_without_a_marker_is_a_difference(cause: str) -> None:
    assert differing([*GOOD, caused(cause, b"one")]) == ["names no cause"]


def test_outputs_that_are_folded_again_replace_those_before() -> None:
    again = caused_by()
    again.forget(7)
    assert differing(GOOD[:1], again) == []


def test_only_what_each_order_of_merging_causes_must_be_there() -> None:
    other = Caused(whole=False, reached=9)
    other.add(7, "out", digest("another content"))
    common = caused_by().common(other)
    assert differing([], common) == ["in:3:7: is missing in out"]
    assert differing([caused("in:3:7:0", b"any"), caused("in:3:5:0", b"any")], common) == []


@pytest.mark.parametrize(
    ("topic_id", "faults"), [(b"id", []), (b"of an earlier topic", ["id:3:0: is missing in app-dlq"])]
)
def test_a_dead_letter_names_its_cause_in_its_key_and_the_id_of_its_topic(topic_id: bytes, faults: list[str]) -> None:
    dead = Caused(whole=True, reached=1)
    dead.add(0, "app-dlq", digest((None,)))
    message = Message(topic="app-dlq", partition=0, offset=0, key=b"in:3:0", headers=[(TOPIC_ID_HEADER, topic_id)])
    check = OutputCheck({("id", 3): dead}, lambda _place, _offset: True)
    assert check.wrong("app-dlq", read_letter(message, ())) is None
    assert [*map(str, check.missing())] == faults


def test_a_record_that_readers_dropped_although_none_with_its_marker_was_folded_is_a_difference() -> None:
    app = profile_app(REKEYED)
    topic = REKEYED.keyed_topic
    collected = Collector(app, {name: Origin(name, 1) for name in app.topics}, {}, exact=True, whole=True)
    markers = [Marker("in", 0, offset, 0) for offset in (4, 7, 4, 5)]
    entries = [Record(topic, 1, None, offset, 0, 0, marker) for offset, marker in enumerate(markers)]
    claim = Claim(0, 1, "", {})
    collected(FoldResult(0, Commit(claim, [], []), [], [], entries))
    assert [*collected.dropped] == [f"{topic}:0:3"]
