"""Times that events name are bounded by Kafka's timestamps: in every state, as in a count by hand."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.registry import app
from streamstate.app import App
from streamstate.bootstrap import deployed
from streamstate.keys import LONG
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.settings import ServiceSettings
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.raw import plain, play_json

DAY_MS = 86_400_000
NOW = 1_795_680_000_000
YEAR_2100 = 4_102_444_800_000
YAML = """
name: lately
topic: listening-events
key: long
path: /v1/users/<key>/lately
fields: {playedAt: {type: time(ms), member: timestamp}}
measures: {plays: {count: all}, latest: {most: playedAt}, lists: {recent: 50, of: playedAt}}
"""
SERVICES: dict[str, App] = {
    **{name: app(name) for name in ("metrics", "names")},
    "lately": profile_app(parse(YAML)),
}


def over(own: App, **given_settings: Any) -> App:
    return deployed(own, ServiceSettings.model_validate(given_settings))


def fed(of: App, plays: list[tuple[int, int]]) -> Driver:
    """A driver with plays of user 1, each as its own time and Kafka's timestamp."""
    driver = Driver(of, MemoryStore())
    raw = [
        (offset, at, LONG.encode(1), play_json((1, 2, 3, offset + 1, time))) for offset, (time, at) in enumerate(plays)
    ]
    driver.feed(0, {"listening-events": raw})
    return driver


def times(driver: Driver) -> list[int]:
    """The times in the state, newest first."""
    match driver.app.name:
        case "names":
            answer = plain(driver.view("recent", 1))
            return [play["timestamp"] for play in answer["recent"]] if answer else []
        case "lately":
            answer = plain(driver.view("lately", 1))
            return [each["value"] for each in answer["lists"]] if answer else []
    return []


@pytest.mark.parametrize("name", SERVICES)
def test_a_play_of_the_year_2100_does_not_stay_the_last(name: str) -> None:
    driver = fed(over(SERVICES[name]), [(NOW, NOW), (YEAR_2100, NOW + 1), (NOW + 5, NOW + 5), (1_000, NOW + 6)])
    (letter,) = driver.dead
    assert (letter.offset, letter.reason) == (1, "decode: OutOfBounds")
    assert "timestamp is too far after Kafka's timestamp" in str(letter.error)
    # Without bounds the play would be the last for ever.
    unbounded = fed(SERVICES[name], [(NOW, NOW), (YEAR_2100, NOW + 1)])
    if name == "metrics":
        assert plain(unbounded.view("metrics", 1))["lastListeningEvent"] == "2100-01-01T00:00:00Z"
        found = plain(driver.view("metrics", 1))
        assert (found["eventCount"], found["lastListeningEvent"][:4]) == (3, "2026")
    else:
        assert times(unbounded)[0] == YEAR_2100
        assert YEAR_2100 not in times(driver)


def test_the_default_bounds_keep_a_state_and_others_make_another() -> None:
    own = SERVICES["metrics"]
    assert over(own).declarations == own.declarations
    others = {"event_ahead_ms": 1}, {"event_behind_ms": 1}, {"event_beyond": "clamp"}
    assert len({over(own, **each).declarations["listening-events"] for each in ({}, *others)}) == 4


bounds = st.fixed_dictionaries(
    {
        "event_ahead_ms": st.integers(0, 5),
        "event_behind_ms": st.none() | st.integers(0, 5),
        "event_beyond": st.sampled_from(["refuse", "clamp"]),
    }
)
drawn = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=30)


@pytest.mark.parametrize("name", ["names", "lately"])
@settings(max_examples=60)
@given(given_bounds=bounds, plays=drawn)
def test_times_are_bounded_as_by_hand(name: str, given_bounds: dict[str, Any], plays: list[tuple[int, int]]) -> None:
    own = SERVICES[name]
    of = over(own, **given_bounds)
    ahead, behind = given_bounds["event_ahead_ms"], given_bounds["event_behind_ms"]
    expected = []
    for time, at in plays:
        within = min(time if behind is None else max(time, at - behind), at + ahead)
        if within == time or given_bounds["event_beyond"] == "clamp":
            expected.append(within)
    driver = fed(of, plays)
    assert sorted(times(driver)) == sorted(expected)
    assert len(driver.dead) == len(plays) - len(expected)


ORDERS = """
name: orders
topic: shop
key: long
path: /v1/users/<key>/orders
where: {kind: {eq: order}}
fields: {kind: str, at: {type: time(us), member: order.at}}
measures: {latest: {most: at}}
"""


@pytest.mark.parametrize(("beyond", "latest"), [("refuse", NOW), ("clamp", NOW + DAY_MS)])
def test_bounds_know_units_and_kinds_of_events(beyond: str, latest: int) -> None:
    own = profile_app(parse(ORDERS))
    of = over(own, event_beyond=beyond)
    kinds = [("order", NOW * 1_000), ("visit", YEAR_2100 * 1_000), ("order", str(YEAR_2100 * 1_000))]
    values = [json.dumps({"kind": kind, "order": {"at": at}}).encode() for kind, at in kinds]
    driver = Driver(of, MemoryStore())
    driver.feed(0, {"shop": [(offset, NOW, LONG.encode(1), value) for offset, value in enumerate(values)]})
    assert plain(driver.view("orders", 1))["latest"] == latest
    assert [letter.offset for letter in driver.dead] == ([2] if beyond == "refuse" else [])
