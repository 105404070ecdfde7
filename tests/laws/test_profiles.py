"""Every measure of a profile answers as counting all events again, whatever the order, the batches and the moment."""

import json
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamstate.errors import BadParameter, BadRecord
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.profile import profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.file import parse
from streamstate.profile.windows import histories as windows
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.store import Store
from streamstate.testing import Driver
from tests.reference_profile import answer
from tests.worked_profile import DECLARED, EVERYTHING, OVERALL, OVERALL_DECLARED, event_json, profile_events

REFERENCE = yaml.safe_load(DECLARED)
APP = profile_app(EVERYTHING)
NOW = 1_800_000_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000

recently = st.sampled_from(range(NOW, NOW - 6 * HOUR_MS, -HOUR_MS // 2))
same_hour = st.sampled_from(range(NOW, NOW - 4 * DAY_MS, -DAY_MS))
moments = st.integers(NOW - 3 * DAY_MS, NOW) | recently | same_hour
timed_events = st.builds(lambda event, time: {**event, "timestamp": time}, profile_events, moments)


def raw_of(event: dict[str, Any]) -> RawRecord:
    return event["offset"], event["timestamp"], LONG.encode(event["key"]), event_json(event)


def driven(store: Store, given_events: list[dict[str, Any]], size: int) -> Driver:
    driver = Driver(APP, store)
    raw = [raw_of({**event, "offset": offset}) for offset, event in enumerate(given_events)]
    for start in range(0, len(raw), size):
        driver.feed(0, {"events": raw[start : start + size]})
    assert not driver.dead
    return driver


def plain(found: Any) -> Any:
    return None if found is None else json.loads(msgspec.json.encode(found))


PLAY = {"device": "tv", "artist": 1, "loud": True, "price": Decimal(1), "ms": 1}
ALIKE = [{**PLAY, "key": days, "timestamp": NOW - days * DAY_MS} for days in (1, 2)]


@pytest.mark.parametrize("busy", [1, windows.BUSY])
@settings(max_examples=100)
@example(given_events=ALIKE, size=2, at=[NOW])
@given(
    given_events=st.lists(timed_events, min_size=1, max_size=25),
    size=st.integers(1, 25),
    at=st.lists(moments, min_size=1, max_size=4),
)
def test_an_answer_is_the_count_of_the_events_before(
    busy: int, given_events: list[dict[str, Any]], size: int, at: list[int]
) -> None:
    """The kept parts of a long history are continued, or made anew."""
    driver = Driver(APP, MemoryStore())
    numbered = [{**event, "offset": offset} for offset, event in enumerate(given_events)]
    with patch.object(windows, "BUSY", busy):
        for start in range(0, len(numbered), size):
            driver.feed(0, {"events": [raw_of(event) for event in numbered[start : start + size]]})
            for key, moment in product((1, 2), at):
                before = [event for event in numbered[: start + size] if event["key"] == key]
                assert plain(driver.view("everything", key, Moment(moment))) == answer(REFERENCE, key, before, moment)
    assert not driver.dead


@settings(max_examples=30)
@given(given_events=st.lists(timed_events, max_size=25), sizes=st.tuples(st.integers(1, 25), st.integers(1, 25)))
def test_the_state_in_redis_does_not_depend_on_the_batches(
    given_events: list[dict[str, Any]], sizes: tuple[int, int], redis_store: Callable[[], RedisStore]
) -> None:
    in_memory = driven(MemoryStore(), given_events, sizes[0]).view("everything", 1, Moment(NOW))
    in_redis = driven(redis_store(), given_events, sizes[1]).view("everything", 1, Moment(NOW))
    assert plain(in_memory) == plain(in_redis)


@settings(max_examples=150)
@given(
    given_events=st.lists(timed_events, max_size=25),
    size=st.integers(1, 25),
    at=st.lists(moments, min_size=1, max_size=4),
)
def test_an_answer_over_all_keys_counts_the_events_of_all_partitions(
    given_events: list[dict[str, Any]], size: int, at: list[int]
) -> None:
    """Each event has another timestamp: partitions have no common order of offsets."""
    times = {event["timestamp"] - number: event for number, event in enumerate(given_events)}
    timed = [{**event, "timestamp": time, "offset": number} for number, (time, event) in enumerate(times.items())]
    driver = Driver(profile_app(OVERALL), MemoryStore(), partitions=2)
    for partition in range(2):
        mine = [event for event in timed if partition_of(LONG.encode(event["key"]), 2) == partition]
        raw = [raw_of(event) for event in mine]
        for start in range(0, len(raw), size):
            driver.feed(partition, {"events": raw[start : start + size]})
    for moment in at:
        found = plain(driver.view("overall", query=Moment(moment)))
        if timed:
            expected = answer(OVERALL_DECLARED, None, timed, moment)
            assert expected is not None
            assert found == {name: of for name, of in expected.items() if name != "key"}
        else:
            assert (found["plays"]["ever"], found["artists"]["2d"], found["lastSeen"]) == (0, [], None)


def test_a_window_over_all_keys_is_answered_while_its_events_are_kept() -> None:
    store = MemoryStore()
    driver = Driver(profile_app(OVERALL), store)
    days = [NOW // DAY_MS * DAY_MS + day * DAY_MS for day in (0, 1, 7, 8)]
    driver.feed(0, {"events": [(n, time, LONG.encode(1), b"{}") for n, time in enumerate([*days, days[0]])]})
    # Three days, and four of history, before the last event.
    assert plain(driver.view("overall", query=Moment(days[1] + 3 * DAY_MS)))["plays"]["3d"] == 1
    with pytest.raises(BadParameter, match=f"the earliest moment is {days[1] + 3 * DAY_MS}, "):
        driver.view("overall", query=Moment(days[1] + 3 * DAY_MS - 300_001))
    assert store.keys(0).keys() == {"numbers", "slots", *(f"slots:{day // DAY_MS}" for day in days[1:])}
    assert store.read({0: []})[0].counters["late_records"] == 1


def reordered(words: Any) -> Any:
    return {name: reordered(of) for name, of in reversed(words.items())} if isinstance(words, dict) else words


@settings(max_examples=30)
@given(given_events=st.lists(timed_events, min_size=1, max_size=25))
def test_the_order_of_a_declaration_is_not_in_the_state(given_events: list[dict[str, Any]]) -> None:
    other = parse(yaml.safe_dump(reordered(REFERENCE), sort_keys=False))
    assert other.state == EVERYTHING.state
    driver = driven(MemoryStore(), given_events, 25)
    found = [plain(driver.view("everything", key, Moment(NOW))) for key in (1, 2)]
    driver.app = profile_app(other)
    assert [plain(driver.view("everything", key, Moment(NOW))) for key in (1, 2)] == found


def test_a_session_outlasts_the_whole_hours_of_a_window() -> None:
    """No pause is longer than the gap."""
    sittings = {"sittings": {"sessions": "26h", "over": "9d"}}
    declared = REFERENCE | {"name": "long", "measures": sittings, "rules": {}, "history": "9d"}
    driver = Driver(profile_app(parse(yaml.safe_dump(declared))), MemoryStore())
    midnight = NOW // DAY_MS * DAY_MS
    times = [midnight + hour * HOUR_MS for hour in (23, *[34] * 20, 49, *[74] * 20)]
    driver.feed(0, {"events": [(offset, time, LONG.encode(1), b"{}") for offset, time in enumerate(times)]})
    with patch.object(windows, "BUSY", 1):
        assert plain(driver.view("long", 1, Moment(times[-1])))["sittings"] == 1


def test_equal_names_of_measures_and_windows_have_types_of_their_own() -> None:
    """The name of a type of an answer is made from the names of profile and measure."""
    words = "{count: all, over: [1h, ever]}"
    measures = f"{{span: {words}, Span: {words}, Windows: {words}, top: {{top: 2, of: ms}}, topItem: {words}}}"
    declared = parse(f"name: window\ntopic: a\nkey: long\npath: /a/<key>\nfields: {{ms: int}}\nmeasures: {measures}")
    kind = type(profile_app(declared).views[0].example)
    _, named = msgspec.json.schema_components([kind])
    assert {"Window", "WindowSpan"} < named.keys()
    assert len(named) == 8


MANY_DIGITS = """
name: spent
topic: events
key: long
path: /v1/users/<key>/spent
fields: {price: decimal(2)}
measures: {spent: {count: price, by: price, over: [7d, ever]}}
"""


def test_a_decimal_has_64_bits() -> None:
    driver = Driver(profile_app(parse(MANY_DIGITS)), MemoryStore())
    near = "92233720368547758.07"
    texts = [near, "-92233720368547758.08", "92233720368547758.08", "Infinity", "1e400", "1e9999999", f"1.{'0' * 40}1"]
    raw = [(offset, NOW, LONG.encode(1), b'{"price": "%s"}' % text.encode()) for offset, text in enumerate(texts)]
    driver.feed(0, {"events": raw})
    assert [(letter.offset, type(letter.error)) for letter in driver.dead] == [(n, BadRecord) for n in range(2, 7)]


def test_decimals_with_one_text_are_counted_together() -> None:
    """The answer's text of a decimal has 17 digits at most."""
    driver = Driver(profile_app(parse(MANY_DIGITS)), MemoryStore())
    prices = (b"900719925474099.92", b"900719925474099.93")
    raw = [(offset, NOW, LONG.encode(1), b'{"price": %s}' % price) for offset, price in enumerate(prices)]
    driver.feed(0, {"events": raw})
    counts = {"900719925474099.9": 2}
    assert plain(driver.view("spent", 1, Moment(NOW)))["spent"] == {"7d": counts, "ever": counts}
