"""A profile of one kind of event, of times in any unit and numbers in texts: equal to the count of the events."""

import json
from functools import lru_cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.app import App
from streamstate.keys import LONG
from streamstate.profile import profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.file import parse
from streamstate.profile.windows.slots import SLOTS
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.reference_profile import answer

DECLARED = """
name: paid
topic: shop
key: long
path: /v1/users/<key>/paid
fields:
  type: str
  amount: int(text)
  at: {type: time(us), member: order.at}
  seen: time(s)
where: {type: {eq: paid}, any: [{amount: {ge: 0}}, {amount: {lt: -5}}]}
measures:
  orders: {count: all, over: [2h, ever]}
  spent: {total: amount, over: [2h, ever]}
  latest: {most: at}
  early: {count: all, where: {at: {lt: 1800000000000}}}
  seen: {last: seen, over: [2h, ever]}
"""
PAID = parse(DECLARED)
NOW, HOUR_MS = 1_800_000_000_000, 3_600_000
OTHER: list[Any] = [None, {"type": "opened", "amount": 7, "order": {"at": "never"}}, {"type": "paid"}, {"amount": 1}]
UNUSABLE: list[Any] = [
    {"type": 5},
    {"type": "paid", "amount": "five"},
    {"type": "paid", "amount": 0.5},
    {"type": "paid", "amount": 1, "order": {"at": "1e400"}},
    {"type": "paid", "amount": 1, "order": 5},
    {"type": "paid", "amount": 1, "seen": 2**62},
    {"type": "paid", "amount": "NaN"},
    [],
]

number = st.integers(-(2**48), 2**48) | st.integers(-9, 9)
written = number.map(str) | number
paid = st.builds(
    lambda amount, at, seen, minutes: {
        "value": {"type": "paid", "amount": amount, "order": {"at": at}, "seen": seen},
        "timestamp": NOW - minutes * 60_000,
    },
    written,
    st.none() | st.integers(0, 2**60) | st.integers(0, 2**60).map(str),
    st.none() | st.integers(0, 2**40) | st.sampled_from([0.25, "1.9999", 1795680000.5]),
    st.integers(0, 240),
)
others = st.builds(
    lambda value, ago: {"value": value, "timestamp": NOW - ago}, st.sampled_from(OTHER), st.integers(0, 9)
)


def event(record: dict[str, Any], offset: int) -> dict[str, Any] | None:
    """The fields by brute force, None for a record of another kind."""
    value = record["value"]
    if value is None or value.get("type") != "paid" or not isinstance(value.get("amount"), int | str):
        return None
    amount = int(value["amount"])
    at, seen = value["order"]["at"], value["seen"]
    fields = {
        "amount": amount,
        "at": None if at is None else int(at) // 1_000,
        "seen": None if seen is None else int(float(seen) * 1_000) if not isinstance(seen, int) else seen * 1_000,
    }
    return {**fields, "timestamp": record["timestamp"], "offset": offset} if amount >= 0 or amount < -5 else None


parsed = lru_cache(parse)


@lru_cache
def made(declared: str) -> App:
    return profile_app(parsed(declared))


def fed(records: list[dict[str, Any]], size: int, declared: str = DECLARED) -> Driver:
    driver = Driver(made(declared), MemoryStore())
    raw = [
        (n, each["timestamp"], LONG.encode(1), None if each["value"] is None else json.dumps(each["value"]).encode())
        for n, each in enumerate(records)
    ]
    for start in range(0, len(raw), size):
        driver.feed(0, {"shop": raw[start : start + size]})
    return driver


@settings(max_examples=60)
@given(records=st.lists(paid | others, max_size=20), size=st.integers(1, 20))
def test_events_of_one_kind_are_counted_in_any_spelling(records: list[dict[str, Any]], size: int) -> None:
    driver = fed(records, size)
    assert not driver.dead
    events = [found for n, record in enumerate(records) if (found := event(record, n))]
    answered = driver.view("paid", 1, Moment(NOW))
    reference = {
        "measures": {name: msgspec.to_builtins(each) for name, each in PAID.measures.items()},
        "path": PAID.path,
    }
    expected = answer(reference, 1, events, NOW)
    assert (None if answered is None else json.loads(msgspec.json.encode(answered))) == expected


@pytest.mark.parametrize("value", UNUSABLE, ids=str)
def test_a_member_of_another_type_is_a_dead_letter(value: Any) -> None:
    driver = fed([{"value": value, "timestamp": NOW}], 1)
    assert [letter.stage for letter in driver.dead] == ["decode"]


def test_records_of_another_kind_let_time_pass_over_all_keys() -> None:
    declared = DECLARED.replace("/users/<key>", "").replace("  seen: {last: seen, over: [2h, ever]}\n", "")
    driver = fed([{"value": OTHER[0], "timestamp": NOW}], 1, declared)
    assert isinstance(driver.store, MemoryStore)
    assert [*driver.store.keys(0)] == [SLOTS]
    assert json.loads(msgspec.json.encode(driver.view("paid", query=Moment(NOW))))["orders"]["ever"] == 0


def test_where_is_a_part_of_the_state_and_is_checked() -> None:
    without = parse(DECLARED.replace("where: {type: {eq: paid}, any: [{amount: {ge: 0}}, {amount: {lt: -5}}]}\n", ""))
    assert without.state != PAID.state
    assert without.state == type(PAID).of_state("paid", without.state).state
    assert PAID.state == type(PAID).of_state("paid", PAID.state).state
