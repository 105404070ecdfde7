"""The processing of a partition's raw records: each record is folded or dead-lettered."""

import re
from collections.abc import Callable, Iterable, Sequence

import pytest

from services.events import ListeningEvent
from services.metrics.model import APP
from streamstate.app import App, Effect, Fold, FoldContext, Record, Source
from streamstate.errors import BadRecord, NotRequested, UnknownSchema
from streamstate.keys import LONG, LONG_MAX
from streamstate.operators.tables import table
from streamstate.processing.decode import (
    DEAD,
    Admission,
    DeadLetter,
    Decoded,
    RawRecord,
    Refusal,
    Stage,
    decode_records,
    reasons,
)
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Fields, Put, Value
from streamstate.testing import Driver
from tests.raw import play_json

SOURCE = APP.source("listening-events")
USER = 42
KEY = LONG.encode(USER)
GOOD = play_json((USER, 1, 2, 3, 4))
NOTHING = (None, 0)
ANY_TIME = Admission(2**63)


def with_field(name: str, literal: str) -> bytes:
    """A good value whose field `name` is written as `literal`."""
    fields = {"userId": "42", "artistId": "1", "albumId": "2", "trackId": "3", "timestamp": "4"} | {name: literal}
    return "{{{}}}".format(", ".join(f'"{key}": {text}' for key, text in fields.items())).encode()


DEEP = b"[" * 10_000 + b"]" * 10_000

BAD: dict[str, tuple[bytes | None, bytes | None, str]] = {
    "null value": (KEY, None, "the value is null"),
    "null key": (None, GOOD, "found null"),
    "empty key": (b"", GOOD, "found 0 bytes"),
    "4-byte key": (KEY[4:], GOOD, "found 4 bytes"),
    "7-byte key": (KEY[1:], GOOD, "found 7 bytes"),
    "9-byte key": (b"\0" + KEY, GOOD, "found 9 bytes"),
    "text key": (b"42", GOOD, "found 2 bytes"),
    "text key of 8 bytes": (b"user--42", GOOD, "the key is not the userId"),
    "negative key": ((-42).to_bytes(8, "big", signed=True), GOOD, "0 or greater"),
    "key of another user": (LONG.encode(43), GOOD, "the key is not the userId"),
    "empty value": (KEY, b"", "truncated"),
    "not JSON": (KEY, b"hello", "malformed"),
    "not UTF-8": (KEY, b"\xff\xfe\x00", "malformed"),
    "truncated": (KEY, GOOD[:-5], "truncated"),
    "more behind it": (KEY, GOOD + b"x", "malformed"),
    "JSON null": (KEY, b"null", "Expected `object`, got `null`"),
    "scalar": (KEY, b"42", "Expected `object`, got `int`"),
    "array": (KEY, b"[42, 1, 2, 3, 4]", "Expected `object`, got `array`"),
    "deep array": (KEY, DEEP, "Expected `object`, got `array`"),
    "deep field": (KEY, with_field("extra", DEEP.decode()), "recursion"),
    "missing field": (KEY, b'{"userId": 42, "artistId": 1, "albumId": 2, "timestamp": 4}', "required field `trackId`"),
    "text": (KEY, with_field("userId", '"42"'), "got `str`"),
    "fraction": (KEY, with_field("trackId", "42.0"), "got `float`"),
    "exponent": (KEY, with_field("trackId", "1e3"), "got `float`"),
    "bool": (KEY, with_field("trackId", "true"), "got `bool`"),
    "null field": (KEY, with_field("trackId", "null"), "got `null`"),
    "NaN": (KEY, with_field("trackId", "NaN"), "malformed"),
    "Infinity": (KEY, with_field("timestamp", "Infinity"), "malformed"),
    "negative id": (KEY, with_field("artistId", "-1"), r"`int` >= 0 - at `\$.artistId`"),
    "2^63": (KEY, with_field("albumId", str(2**63)), "albumId"),
    "2^64": (KEY, with_field("albumId", str(2**64)), "albumId"),
    "1,000 digits": (KEY, with_field("albumId", "9" * 1_000), "albumId"),
    "negative timestamp": (KEY, with_field("timestamp", "-1"), r"\$.timestamp"),
    "after the year 9999": (KEY, with_field("timestamp", "253402300800000"), r"\$.timestamp"),
    "nanoseconds": (KEY, with_field("timestamp", str(2**63 - 1)), r"\$.timestamp"),
}

FINE = {
    "further field": with_field("extra", '{"deep": [1, 2, {"x": null}]}'),
    "id 0": with_field("artistId", "0"),
    "id 2^31": with_field("artistId", str(2**31)),
    "id 2^53 + 1": with_field("artistId", str(2**53 + 1)),
    "id 2^63 - 1": with_field("artistId", str(LONG_MAX)),
    "timestamp 0": with_field("timestamp", "0"),
    "seconds for milliseconds": with_field("timestamp", "1700000000"),
    "year 9999": with_field("timestamp", "253402300799999"),
    "1 MB": with_field("extra", f'"{"x" * 1_000_000}"'),
}


def between(key: bytes | None, value: bytes | None) -> list[RawRecord]:
    """The record at offset 11, between two good ones."""
    return [(10, 1_000, KEY, GOOD), (11, 1_000, key, value), (12, 1_000, KEY, GOOD)]


def decode(
    raw: Sequence[RawRecord],
    at: tuple[int | None, int] = NOTHING,
    place: tuple[int, int] = (0, 1),
    admission: Admission = ANY_TIME,
) -> Decoded:
    return decode_records(SOURCE, raw, at, place, admission)


def offsets(decoded: Decoded) -> tuple[list[int], list[int]]:
    """Of the records, and of the dead letters."""
    dead = [entry.offset for entry in decoded.entries if isinstance(entry, DeadLetter)]
    return [entry.offset for entry in decoded.entries if entry.offset not in dead], dead


def letter(decoded: Decoded) -> DeadLetter:
    (dead,) = (entry for entry in decoded.entries if isinstance(entry, DeadLetter))
    return dead


@pytest.mark.parametrize("case", BAD)
def test_a_bad_event_is_dead_lettered_with_its_reason_and_its_neighbours_are_folded(case: str) -> None:
    key, value, reason = BAD[case]
    decoded = decode(between(key, value))
    assert offsets(decoded) == ([10, 12], [11])
    dead = letter(decoded)
    assert (dead.key, dead.value, dead.stage) == (key, value, "decode")
    with pytest.raises(type(dead.error), match=f"(?i){reason}"):
        raise dead.error
    assert not decoded.misplaced


@pytest.mark.parametrize("case", FINE)
def test_an_unusual_event_is_folded(case: str) -> None:
    decoded = decode(between(KEY, FINE[case]))
    assert offsets(decoded) == ([10, 11, 12], [])
    assert not decoded.misplaced


def test_whatever_a_decoder_raises_is_of_its_record_alone() -> None:
    def decode_or_fail(_key: int, value: bytes | None) -> float:
        return 1 / len(value or b"")

    raw: list[RawRecord] = [(0, 0, KEY, b"1"), (1, 0, KEY, b""), (2, 0, KEY, b"1")]
    decoded = decode_records(Source("topic", LONG, decode_or_fail), raw, NOTHING, (0, 1), ANY_TIME)
    assert offsets(decoded) == ([0, 2], [1])
    assert isinstance(letter(decoded).error, ZeroDivisionError)


def test_the_reasons_of_dead_letters_are_counted_without_what_the_records_say() -> None:
    def apply(records: Sequence[Record[int, ListeningEvent]], _context: FoldContext) -> Iterable[Effect]:
        known: dict[int, str] = {}
        return [Put("k", known[record.key]) for record in records]

    driver = Driver(App("failing", (Fold((SOURCE,), apply),)), MemoryStore())
    driver.feed(0, {SOURCE.topic: [*between(KEY, b"{"), (13, 0, b"short", GOOD)]})
    counters = driver.store.read({0: []})[0].counters
    assert counters[DEAD] == 4
    assert reasons(counters) == {"decode: BadRecord": 1, "decode: DecodeError": 1, "fold: KeyError": 2}


@pytest.mark.parametrize("stage", ["schema", "timestamp", "skip"])
def test_a_record_that_is_refused_again_by_its_letter_has_the_same_reason(stage: Stage) -> None:
    for error in (BadRecord("it is too early"), UnknownSchema("there is no schema 7")):
        assert DeadLetter("topic", 1, 0, 0, KEY, GOOD, stage, error).reason == stage


def test_a_record_from_the_future_is_dead_lettered_and_stays_so_when_the_time_has_come() -> None:
    raw: list[RawRecord] = [(0, 10, KEY, GOOD), (1, 50, KEY, GOOD), (2, 20, KEY, GOOD)]
    before = Refusal("timestamp", "the timestamp 50 is too far in the future")
    for admission in (Admission(49), Admission(2**63, {1: before})):
        decoded = decode(raw, admission=admission)
        assert offsets(decoded) == ([0, 2], [1])
        assert (letter(decoded).stage, str(letter(decoded).error)) == before
        assert decoded.entries[-1].stream_time == 20
    assert offsets(decode(raw, admission=Admission(50))) == ([0, 1, 2], [])


@pytest.mark.parametrize("timestamp", [-1, -62_135_596_800_000])
def test_a_record_from_before_1970_is_dead_lettered(timestamp: int) -> None:
    decoded = decode([(0, 10, KEY, GOOD), (1, timestamp, KEY, GOOD), (2, 0, KEY, GOOD)])
    assert offsets(decoded) == ([0, 2], [1])
    assert letter(decoded).stage == "timestamp"


def test_a_record_that_an_operator_skips_is_not_even_decoded_and_keeps_the_reason() -> None:
    raw: list[RawRecord] = [(0, 10, KEY, GOOD), (1, 50, KEY, b"{"), (2, 20, KEY, GOOD)]
    decoded = decode(raw, admission=Admission(2**63, {1: Refusal("skip", "stops the worker")}))
    assert offsets(decoded) == ([0, 2], [1])
    assert (letter(decoded).stage, str(letter(decoded).error)) == ("skip", "stops the worker")
    assert (letter(decoded).timestamp, letter(decoded).stream_time) == (50, 10)


def looking(look: Callable[[FoldContext], object]) -> Driver:
    """A fold that asks for the read `k` and for row 1 of `cities`, and then looks at what `look` says."""

    def apply(_records: Sequence[Record[int, ListeningEvent]], context: FoldContext) -> Iterable[Effect]:
        look(context)
        return ()

    fold = Fold((SOURCE,), apply, lookups=lambda _: {"cities": [1]}, reads=lambda _: [Value("k:1")])
    return Driver(App("looking", (table("cities", LONG, lambda _key, value: value.decode()), fold)), MemoryStore())


@pytest.mark.parametrize(
    ("look", "name"),
    [
        (lambda context: context.values[Value("k:2")], "Value(k…), which it did not ask for; add it to its `reads`"),
        (lambda context: context.values.get(Fields("other")), "Fields(other…), which"),
        (lambda context: context.rows["cities"][2], "a row of cities, which it did not ask for; add it to its `look"),
        (lambda context: context.rows["cities"].get(2), "a row of cities, which"),
        (lambda context: context.rows["ports"], "a table, which it did not ask for; add it to its `lookups`"),
    ],
)
def test_a_fold_that_looks_at_what_it_did_not_ask_for_is_told_so(
    look: Callable[[FoldContext], object], name: str
) -> None:
    with pytest.raises(NotRequested, match=re.escape(f"the fold of listening-events looks at {name}")):
        looking(look).feed(0, {SOURCE.topic: [(0, 0, KEY, GOOD)]})
