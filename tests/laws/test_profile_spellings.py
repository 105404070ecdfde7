"""Numbers, texts and nulls as producers write them: one value by decoder and reference, or a dead letter."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamstate.app import NULLS
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.registered.registry import Registry
from streamstate.keys import LONG
from streamstate.profile import Profile, profile_app, total
from streamstate.profile.file import parse
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.reference_events import UNUSABLE, event_of

DECLARED = """
name: spelled
topic: shop
key: long
path: /v1/users/<key>/spelled
fields:
  whole: int(text)
  price: decimal(2)
  about: decimal(2, round)
  at: time(s)
  plain: int
  text: {type: str, member: in.text}
measures:
  whole: {total: whole}
  price: {total: price}
  about: {total: about}
  at: {most: at}
  plain: {total: plain}
  text: {count: text}
"""
SPELLED = parse(DECLARED)
APP = profile_app(SPELLED)
NOW = 1_800_000_000_000
FIELDS = SPELLED.fields.items()
KINDS = {name: of if isinstance(of, str) else of.type for name, of in FIELDS}
PATHS = {name: name if isinstance(of, str) else of.member for name, of in FIELDS}


def folded(*values: bytes | None) -> tuple[Driver, dict[str, int]]:
    """The driver, and the stored numbers of the key; decoder and reference agree about them and about dead letters."""
    driver = Driver(APP, MemoryStore())
    raw = [(offset, NOW, LONG.encode(1), value) for offset, value in enumerate(values)]
    driver.feed(0, {"shop": raw})
    assert isinstance(driver.store, MemoryStore)
    stored = driver.store.keys(0)
    read: list[dict[str, Any] | None] = []
    unusable = []
    for offset, value in enumerate(values):
        try:
            read.append(event_of(value, KINDS, PATHS, {}))
        except UNUSABLE:
            unusable.append(offset)
    assert unusable == [letter.offset for letter in driver.dead]
    numbers = dict(stored.get("numbers:1", {}))
    assert numbers == by_hand([event for event in read if event])
    return driver, numbers


def by_hand(events: list[dict[str, Any]]) -> dict[str, int]:
    """The stored numbers: sums, the latest time, the count of texts, and the number of events."""
    held: dict[str, list[int]] = {}
    for event in events:
        for name, value in event.items():
            if value is not None:
                number = 1 if name == "text" else int(value * 100) if isinstance(value, Decimal) else value
                held.setdefault(name, []).append(number)
    numbers = {name: max(values) if name == "at" else sum(values) for name, values in held.items()}
    return numbers | ({"#": len(events)} if events else {})


LENIENT = [
    '" 7"', '"7 "', '"+7"', '"1_0"', '"\\u0667"', '"\uff17"', '"7e0"', '"1e99999999"', '"1e99999999999999999999"',
    '"07"', '""', '"0x7"', '"NaN"', '"Infinity"', '"-"', '"7\\n"', '"7."', '".7"', '"1,5"', "true", "[7]", '{"a": 7}',
    "1e99999999", "1e400", "9223372036854775808e1", f'"1.{"0" * 40}1"', "9" * 5_000, f'"{"9" * 5_000}"',
    f"0.{'1' * 40}",
]  # fmt: skip
"""What Python's constructors of numbers would read, or what has no end of digits."""


@pytest.mark.parametrize("member", ["whole", "price", "at"])
@pytest.mark.parametrize("written", LENIENT, ids=lambda written: written[:20])
def test_only_what_json_writes_is_a_number(member: str, written: str) -> None:
    driver, numbers = folded(b'{"%s": %s}' % (member.encode(), written.encode()))
    assert numbers == {}
    (letter,) = driver.dead
    assert letter.stage == "decode"
    assert member in str(letter.error) or "4300 digits" in str(letter.error)


@pytest.mark.parametrize(
    ("member", "written", "stored"),
    [
        ("whole", '"7"', 7),
        ("whole", '"-10117"', -10117),
        ("whole", "7.0", 7),
        ("whole", '"7.0"', None),
        ("whole", '"\\u0037"', 7),
        ("whole", "9007199254740992", 2**53),
        ("whole", "9223372036854775808", None),
        ("price", '"-0.50"', -50),
        ("price", "1.5e1", 1_500),
        ("price", "1.230", 123),
        ("price", "0.30000000000000004", None),
        ("price", "0.10000000149011612", None),
        ("about", "0.30000000000000004", 30),
        ("about", "0.10000000149011612", 10),
        ("about", '"0.125"', 12),
        ("about", "0.135", 14),
        ("about", "-0.125", -12),
        ("about", "-0.001", 0),
        ("about", "1e-99999999", 0),
        ("about", f"0.{'1' * 40}", 11),
        ("about", f"0.125{'0' * 40}1", 13),
        ("about", "92233720368547758.075", None),
        ("about", "1e99999999", None),
        ("about", '"1_0"', None),
        ("at", "1.795680000123E9", 1_795_680_000_123),
        ("at", '"1795680000.1239"', 1_795_680_000_123),
        ("at", "-0.0001", -1),
        ("at", "1e-99999999", None),
        ("plain", '"7"', None),
    ],
)
def test_a_number_or_its_text_has_one_value(member: str, written: str, stored: int | None) -> None:
    driver, numbers = folded(b'{"%s": %s}' % (member.encode(), written.encode()))
    assert numbers == ({} if stored is None else {"#": 1, member: stored})
    assert [member in str(letter.error) for letter in driver.dead] == [True] * (stored is None)


TEXTS = [
    '"\\ud83d"', '"\\udc00\\ud83d"', '"\\ud83d\\ud83d\\ude00"', '{"\\ud83d": 1}', '["\\\\ud83d"]', '"\udcff"',
    '{"\udcff": "\udced"}', '" 7 "',
]  # fmt: skip
"""Texts without UTF-8; `\udcff` is the byte 0xff."""
NUMBERS = ["1e99999999", "1e99999999999999999999", "9" * 5_000]
texts = st.text(st.characters(codec="utf-8") | st.characters(categories=["Cs"]) | st.just("\\"), max_size=5)


@given(other=st.sampled_from(TEXTS + NUMBERS) | texts.map(json.dumps), last=st.booleans())
@example(other='"\\ud83d"', last=True)
def test_what_is_not_read_is_not_judged(other: str, last: bool) -> None:
    members = ['"whole": 7', f'"other": {other}', '"in": {"text": "\\ud83d\\ude00"}']
    text = "{" + ", ".join(sorted(members, reverse=last)) + "}"
    driver, numbers = folded(text.encode(errors="surrogateescape"))
    assert driver.dead == []
    assert numbers == {"#": 1, "whole": 7, "text": 1}


@pytest.mark.parametrize("other", TEXTS)
def test_what_is_not_read_of_renamed_members_is_not_judged(other: str) -> None:
    value = f'{{"n": 7, "other": {other}}}'.encode(errors="surrogateescape")
    source = formatted(APP, {"shop": Format(value="json", fields={"whole": "n"})}, Registry("")).source("shop")
    assert source.decode(1, value).f0 == 7


def test_a_class_rounds_as_a_file_does() -> None:
    class Rounded(Profile, topic="shop", path="/v1/users/<key>/rounded", fields={"price": "decimal(2, round)"}):
        spent = total("price")

    text = (
        DECLARED[: DECLARED.index("fields:")]
        + "fields: {price: 'decimal(2, round)'}\nmeasures: {spent: {total: price}}"
    )
    assert Rounded.declared.state == parse(text).state
    assert Rounded.declared.state != parse(text.replace(", round", "")).state


@pytest.mark.parametrize("text", ['"\\ud83d"', '"a\\udc00"', '"\udcff"'])
def test_a_read_text_has_utf8(text: str) -> None:
    driver, _ = folded(b'{"in": {"text": %s}}' % text.encode(errors="surrogateescape"))
    (letter,) = driver.dead
    assert str(letter.error).startswith("the member in has a text that is no UTF-8, or a surrogate without its pair")


def test_a_null_value_is_no_event_and_counts_as_such() -> None:
    driver, numbers = folded(b'{"whole": 7}', None, None)
    assert driver.dead == []
    assert numbers == {"#": 1, "whole": 7}
    snapshot = driver.store.read({0: ()})[0]
    assert (snapshot.counters, snapshot.positions) == ({NULLS: 2}, {"shop": 3})
