"""Answers as of an earlier time: equal to the answers of then, whatever came later."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from devkit.registry import app as app_of
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate.app import App
from streamstate.history.answers.past import Past, behind
from streamstate.keys import LONG
from streamstate.processing.decode import Refusal
from streamstate.replay.feed import MergedLogs, Overtaken, dated
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin, TopicPartition
from streamstate.testing import Driver
from streamstate.view import View, encoded, parameters
from tests.raw import name_json, play_json

Logs = Mapping[TopicPartition, Sequence[Message]]
SECOND, END = 1_000, 2**62

times = st.integers(0, 9).map(lambda number: 1_000_000 + number * SECOND)
plays = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), times, st.booleans()), max_size=30)
"""User, artist, timestamp, and whether the record can be decoded."""


def log(topic: str, records: Iterable[tuple[bytes, bytes | None, int]], partition: int = 0) -> list[Message]:
    return [
        Message(topic=topic, partition=partition, offset=offset, key=key, value=value, timestamp=(1, timestamp))
        for offset, (key, value, timestamp) in enumerate(records)
    ]


def of_plays(given: Iterable[tuple[int, int, int, bool]]) -> Logs:
    events = ((LONG.encode(u), play_json((u, a, a, a, t)) if good else b"?", t) for u, a, t, good in given)
    return {(LISTENING_EVENTS, 0): log(LISTENING_EVENTS, events)}


def past(
    app: App, view: View[Any], logs: Logs, refused: Any = None, partitions: int = 1, late: Overtaken | None = None
) -> Past:
    own = behind(app, view)
    feed = MergedLogs(
        dated(messages, source, rank, partition, (refused or {}).get((topic, partition), {}), late)
        for rank, (topic, source) in enumerate(zip(own.topics, own.sources, strict=True))
        for (of, partition), messages in logs.items()
        if of == topic
    )
    return Past(own, {topic: Origin(topic, partitions) for topic in own.topics}, feed, refused or {}, {})


def live(app: App, view: View[Any], logs: Logs, keys: Iterable[str]) -> dict[str, bytes]:
    """The answers of a stream that has folded all of `logs`."""
    driver = Driver(app, MemoryStore())
    raw = {
        topic: [(m.offset() or 0, m.timestamp()[1], m.key(), m.value()) for m in messages]
        for (topic, _), messages in logs.items()
    }
    driver.feed(0, raw)
    return {key: encoded(driver.view(view.name, key)) for key in keys}


KEYS = ("1", "2", "3")


@given(plays, st.lists(times, min_size=1, max_size=5))
def test_an_answer_as_of_a_time_has_the_records_before_the_first_later_record(given: Any, moments: list[int]) -> None:
    """So a row of a training set never sees a later record, whatever rows are answered before."""
    view = METRICS.views[0]
    made = past(METRICS, view, of_plays(given))
    for time in sorted(moments):
        made.advance_until(time)
        # As in Kafka's search by timestamp, every record moves the time on.
        later = next((n for n, (_, _, at, _) in enumerate(given) if at > time), len(given))
        now = {key: encoded(made.answer(view.ask(key))) for key in KEYS}
        assert now == live(METRICS, view, of_plays(given[:later]), KEYS)
        assert made.positions([0]) == {(LISTENING_EVENTS, 0): later}


@given(plays, st.lists(times, min_size=1, max_size=5))
def test_answers_that_lack_earlier_records_behind_a_later_timestamp_are_counted(given: Any, moments: list[int]) -> None:
    moments.sort()
    overtaken = Overtaken(moments)
    made = past(METRICS, METRICS.views[0], of_plays(given), late=overtaken)
    for time in moments:
        made.advance_until(time)
    made.look_ahead(moments[-1])
    lacking = dict.fromkeys(range(len(moments)), 0)
    for number, time in enumerate(moments):
        later = next((n for n, (_, _, at, _) in enumerate(given) if at > time), len(given))
        lacking[number] = sum(good and at <= time for _, _, at, good in given[later:])
    assert overtaken.answers == sum(map(bool, lacking.values()))
    assert overtaken.records >= max(lacking.values())


@given(plays, st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_answers_at_positions_equal_the_answers_of_then(given: Any, offsets: list[int]) -> None:
    view, logs = METRICS.views[0], of_plays(given)
    made = past(METRICS, view, logs)
    for offset in sorted(offsets):
        made.advance_to({(LISTENING_EVENTS, 0): offset})
        now = {key: encoded(made.answer(view.ask(key))) for key in KEYS}
        assert now == live(METRICS, view, of_plays(given[:offset]), KEYS)


def test_what_the_stream_refused_stays_refused() -> None:
    view, logs = METRICS.views[0], of_plays([(1, 1, 1_000, True), (1, 1, 2**60, True), (1, 1, 2_000, True)])
    refused = {(LISTENING_EVENTS, 0): {1: Refusal("timestamp", "too far in the future")}}
    made = past(METRICS, view, logs, refused)
    made.advance_until(2_000)
    assert made.positions([0]) == {(LISTENING_EVENTS, 0): 3}
    assert b'"eventCount":2' in encoded(made.answer(view.ask("1")))


def test_merged_topics_come_by_stream_time_and_in_the_order_of_the_topics_at_equal_times() -> None:
    app = app_of("notifications")
    view = app.views[0]
    closed, tick = b"Closed", b""
    logs = {
        ("open", 0): log("open", [(b"anna", closed, 120_000), (b"anna", b"Open", 240_000)]),
        ("tick", 0): log("tick", [(b"anna", tick, at * 60_000) for at in (1, 2, 3, 4, 5)]),
    }
    made, driver = past(app, view, logs), Driver(app, MemoryStore())
    for time in range(60_000, 360_000, 60_000):
        made.advance_until(time)
        until = {
            topic: [(m.offset() or 0, m.timestamp()[1], m.key(), m.value()) for m in of if m.timestamp()[1] == time]
            for (topic, _), of in logs.items()
        }
        driver.feed(0, until)
        assert encoded(made.answer(view.ask("anna"))) == encoded(driver.view(view.name, "anna"))
    assert b'"count":3' in encoded(made.answer(view.ask("anna")))
    at_position = past(app, view, logs)
    at_position.advance_to({("open", 0): 1, ("tick", 0): 3})
    assert at_position.positions([0]) == {("open", 0): 1, ("tick", 0): 3}


def test_a_table_has_the_rows_of_the_time_of_a_record() -> None:
    view = next(view for view in NAMES.views if view.name == "recent")
    assert behind(NAMES, view).topics == NAMES.topics
    assert behind(NAMES, NAMES.views[0]).topics == ("artists",)
    logs = {
        ("artists", 0): log("artists", [(LONG.encode(1), name_json(1, name), at) for name, at in (("a", 1), ("b", 9))]),
        **of_plays([(1, 1, 5, True), (1, 1, 10, True)]),
    }
    emitted: list[Any] = []
    made = past(NAMES, view, logs)
    made.replay.publisher = lambda result: emitted.extend(result.emits)
    made.advance_until(10)
    assert [b'"artistName":"a"' in each.value for each in emitted] == [True, False]


def test_trailing_windows_end_at_the_given_moment() -> None:
    app = app_of("profile")
    [view] = app.views
    assert view.query
    logs = of_plays([(1, 1, 1_750_000_000_000, True), (1, 1, 1_750_003_700_000, True)])
    made = past(app, view, logs)
    made.advance_until(1_750_003_700_000)
    query = parameters(view.query, {"at": "1750003700000"})
    assert b'"1h":1' in encoded(made.answer(view.ask("1", query)))


def test_a_view_of_all_partitions_has_the_sum() -> None:
    app = METRICS
    view = next(view for view in app.views if view.over_all_partitions)
    first, second = ([(LONG.encode(1), play_json((1, 1, 1, 1, 5)), 5)] * count for count in (2, 3))
    logs = {
        (LISTENING_EVENTS, 0): log(LISTENING_EVENTS, first),
        (LISTENING_EVENTS, 1): log(LISTENING_EVENTS, second, partition=1),
    }
    made = past(app, view, logs, partitions=2)
    made.advance_to({(LISTENING_EVENTS, 0): 2, (LISTENING_EVENTS, 1): 1})
    assert b'"count":3' in encoded(made.answer(view.ask("")))
