"""What joins and windows keep to, whatever is folded by them: against plain recounts, and however batches are cut."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import LATE, App, Emit, Record
from streamstate.functions import HoppingWindows, Output, Sessions, State, Text, fold, fold_pairs, source
from streamstate.functions.timelines import Session
from streamstate.operators.interval_join import Pair
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Between
from streamstate.testing import Driver

Event = tuple[str, str, int, str | None]
"""Topic, key, timestamp, value."""

times = st.integers(0, 60)
keys = st.sampled_from(["a", "b"])
cuts = st.lists(st.integers(1, 29))


def events(left: st.SearchStrategy[str | None], right: st.SearchStrategy[str | None]) -> st.SearchStrategy[list[Event]]:
    return st.lists(
        st.tuples(st.just("left"), keys, times, left) | st.tuples(st.just("right"), keys, times, right), max_size=30
    )


def merged(drawn: Sequence[Event], ranks: Sequence[str] = ("left", "right")) -> list[Event]:
    """By the greatest timestamp so far of each topic, in the order of `ranks` at a tie."""
    greatest: dict[str, int] = {}
    placed = []
    for event in drawn:
        topic = event[0]
        greatest[topic] = max(greatest.get(topic, 0), event[2])
        placed.append((greatest[topic], ranks.index(topic), event))
    return [event for *_, event in sorted(placed, key=lambda entry: entry[:2])]


def folded(app: App, drawn: Sequence[Event], edges: Iterable[int] = ()) -> Driver:
    """`app` after the merged order of `drawn`, cut into batches before the `edges`."""
    driver = Driver(app, MemoryStore())
    offsets: Counter[str] = Counter()
    raw: list[tuple[str, RawRecord]] = []
    for topic, key, timestamp, value in merged(drawn):
        raw.append((topic, (offsets[topic], timestamp, key.encode(), None if value is None else value.encode())))
        offsets[topic] += 1
    bounds = [0, *sorted(edge for edge in set(edges) if 0 < edge < len(raw)), len(raw)]
    for start, end in pairwise(bounds):
        driver.feed(0, {name: [row for topic, row in raw[start:end] if topic == name] for name in ("left", "right")})
    return driver


def emitted(driver: Driver) -> list[tuple[bytes, bytes]]:
    return [(emit.key, emit.value) for emit in driver.emitted]


def counted(driver: Driver, what: str = LATE) -> int:
    return driver.store.read({0: []})[0].counters.get(what, 0)


LEFT, RIGHT = source("left", str, deletes=True), source("right", str, deletes=True)
OUT = Output("out", str)


class Row(State, by=LEFT):
    row = Text(loaded=True)


@fold(LEFT, RIGHT)
def join(record: Record[str, str | None], state: Row) -> Iterator[Emit]:
    if record.topic == "left":
        state.row.set(record.value)
    else:
        yield OUT.emit(record, f"{record.value} with {state.row.value}")


TABLE = App("table", (join,))


class TestLoadedTexts:
    @given(events(st.none() | st.sampled_from("xy"), st.sampled_from("12")), cuts)
    def test_a_record_gets_the_row_of_its_moment(self, drawn: list[Event], edges: list[int]) -> None:
        now: dict[str, str | None] = {}
        expected = []
        for topic, key, _time, value in merged(drawn):
            if topic == "left":
                now[key] = value
            else:
                expected.append((key.encode(), f"{value} with {now.get(key)}".encode()))
        assert emitted(folded(TABLE, drawn, edges)) == expected


class Sums(State, by=LEFT):
    windows = HoppingWindows(size=10, advance=5, retention=30, grace=3)


@fold(LEFT, RIGHT)
def sums(record: Record[str, str], state: Sums) -> Iterator[Emit]:
    for window in state.windows.add(record, int(record.value)) if record.value else ():
        yield OUT.emit(record, f"{window.start}-{window.start + 10}: {window.count}")


SUMS = App("sums", (sums,))
numbers = st.sampled_from(["", "1", "7", "-3"])


class TestWindows:
    @given(events(numbers, numbers), cuts)
    def test_windows_are_a_recount_without_late_records(self, drawn: list[Event], edges: list[int]) -> None:
        driver = folded(SUMS, drawn, edges)
        windows: dict[tuple[str, int], list[int]] = {}
        updates, late, now = [], 0, 0
        for _topic, key, time, value in merged(drawn):
            now = max(now, time)
            if value:
                all_of = [start for start in range(0, 61, 5) if start <= time < start + 10]
                open_ones = [start for start in all_of if start + 13 > now]
                late += open_ones != all_of
                for start in open_ones:
                    windows.setdefault((key, start), []).append(int(value))
                    updates.append((key.encode(), f"{start}-{start + 10}: {len(windows[key, start])}".encode()))
        for key in ("a", "b"):
            entries = driver.store.read({0: [Between(f"windows:{key}", 0, 100, 100)]})[0].values[0]
            expected = [
                (start, len(values), min(values), max(values), sum(values))
                for (of, start), values in sorted(windows.items())
                if of == key and start >= now - 30
            ]
            assert [tuple(json.loads(text)) for text, _start in entries] == expected
        assert emitted(driver) == updates
        assert counted(driver) == late


GAP, GRACE, RETENTION = 5, 3, 20


class Periods(State, by=LEFT):
    sessions = Sessions(GAP, RETENTION, GRACE)


@fold(LEFT, RIGHT)
def session_updates(record: Record[str, str], state: Periods) -> Iterator[Emit]:
    if session := state.sessions.add(record):
        yield OUT.emit(record, f"{session.start}-{session.end}: {session.count}")


SESSION_APP = App("sessions", (session_updates,))


def sessions_of(times_of_key: Iterable[int]) -> list[Session]:
    """The times in order, cut wherever two are more than the gap apart."""
    cut: list[list[int]] = []
    for time in sorted(times_of_key):
        if cut and time - cut[-1][-1] <= GAP:
            cut[-1].append(time)
        else:
            cut.append([time])
    return [Session(of[0], of[-1], len(of)) for of in cut]


def stored_sessions(driver: Driver, key: str) -> list[Session]:
    stored = driver.store.read({0: [Between(f"sessions:{key}", 0)]})[0].values[0]
    return [Session(*json.loads(text)) for text, _end in stored]


class TestSessionWindows:
    @given(events(st.none(), st.none()), cuts)
    def test_sessions_are_a_recount_without_late_records(self, history: list[Event], edges: list[int]) -> None:
        driver = folded(SESSION_APP, history, edges)
        taken: dict[str, list[int]] = {"a": [], "b": []}
        updates, late, now = [], 0, 0
        for _topic, key, time, _value in merged(history):
            now = max(now, time)
            if time + GAP + GRACE < now:
                late += 1
                continue
            taken[key].append(time)
            (session,) = (each for each in sessions_of(taken[key]) if each.start <= time <= each.end)
            updates.append((key.encode(), f"{session.start}-{session.end}: {session.count}".encode()))
        for key, of_key in taken.items():
            kept = [each for each in sessions_of(of_key) if each.end >= now - RETENTION]
            assert stored_sessions(driver, key) == kept
        assert emitted(driver) == updates
        assert counted(driver) == late

    @given(st.lists(st.integers(0, 60), max_size=30), st.data(), cuts)
    def test_any_order_within_grace_gives_the_same_sessions(
        self, in_order: list[int], data: st.DataObject, edges: list[int]
    ) -> None:
        """Each record is delayed by at most gap and grace: none is late."""
        delays = [data.draw(st.integers(0, GAP + GRACE)) for _ in in_order]
        arrivals = sorted((time + delay, time) for time, delay in zip(in_order, delays, strict=True))
        driver = folded(SESSION_APP, [("right", "a", time, None) for _, time in arrivals], edges)
        kept = [each for each in sessions_of(in_order) if each.end >= max(in_order) - RETENTION]
        assert stored_sessions(driver, "a") == kept
        assert counted(driver) == 0

    @pytest.mark.parametrize("wrong", [{"gap": 0}, {"grace": -1}, {"retention": 12}])
    def test_windows_that_forget_what_can_still_grow_are_refused(self, wrong: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="retention >= 2 gap"):
            Sessions(**{"gap": 5, "grace": 3, "retention": 13, **wrong})


@fold_pairs(source("left", str), source("right", str), within=5, grace=2)
def pairs(pair: Pair) -> Iterator[Emit]:
    yield OUT.emit(pair.cause, f"{pair.left.value} {pair.right.value}")


PAIRS = App("pairs", (pairs,))


class TestPaired:
    @given(events(st.none(), st.none()), cuts)
    def test_each_pair_is_there_once_and_late_records_are_not(self, drawn: list[Event], edges: list[int]) -> None:
        named = [(topic, key, time, str(number)) for number, (topic, key, time, _) in enumerate(drawn)]
        taken: list[Event] = []
        expected, late, now = [], 0, 0
        for event in merged(named):
            topic, key, time, value = event
            now = max(now, time)
            if time + 7 < now:
                late += 1
                continue
            near = [other for other in taken if other[0] != topic and other[1] == key and abs(other[2] - time) <= 5]
            for other in near:
                texts = (value, other[3]) if topic == "left" else (other[3], value)
                expected.append((key.encode(), " ".join(map(str, texts)).encode()))
            taken.append(event)
        driver = folded(PAIRS, named, edges)
        assert sorted(emitted(driver)) == sorted(expected)
        assert counted(driver) == late

    @given(events(st.none(), st.none()), cuts)
    def test_what_can_find_no_partner_any_more_is_forgotten(self, drawn: list[Event], edges: list[int]) -> None:
        named = [(topic, key, time, "x") for topic, key, time, _ in drawn]
        driver = folded(PAIRS, named, edges)
        now = max((time for _, _, time, _ in drawn), default=0)
        for topic in ("left", "right"):
            for key in ("a", "b"):
                held = driver.store.read({0: [Between(f"{topic}:{key}", 0, 100, 100)]})[0].values[0]
                assert all(time >= now - 12 for _, time in held)
