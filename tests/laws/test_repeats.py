"""A derived topic as an input: whatever is sent again, and however it is cut into batches, counts once."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.app import App, Count, Effect, Emit, Fold, FoldContext, Record, Source
from streamstate.functions import HoppingWindows, State, fold
from streamstate.keys import TEXT, Marker
from streamstate.operators.repeats import REPEATS, without_repeats
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Between, Fields, IncrementScores, Merge, Newest, PushRecent, Top, Value
from streamstate.state.redis import RedisStore
from streamstate.state.store import Store
from streamstate.testing import Driver

TOPICS = ("pairs", "updates")


def plain(_key: str, value: bytes | None) -> bytes:
    return value or b""


def count(records: Sequence[Record[str, bytes]], context: FoldContext) -> Iterable[Effect]:
    assert context.values[Value("asked")] is None
    yield Merge("counts", add=Counter(f"{record.topic} {record.value.decode()}" for record in records))
    yield Count("folded", len(records))


def asked(_records: Sequence[Record[str, bytes]]) -> Iterable[Value]:
    return [Value("asked")]


APP = App(
    "chained", (without_repeats(Fold(tuple(Source(topic, TEXT, plain) for topic in TOPICS), count, reads=asked)),)
)


@st.composite
def sent_again(draw: st.DrawFn, partition: int) -> list[Marker]:
    """What the causes in a partition emit, by a process that ends now and then, and goes on from its last commit."""
    numbers = draw(st.lists(st.integers(1, 3), max_size=6))
    emitted = [Marker("id", partition, 2 * cause, n) for cause, count in enumerate(numbers) for n in range(count)]
    log: list[Marker] = []
    committed = 0
    for _ in range(draw(st.integers(0, 3))):
        ended = draw(st.integers(committed, len(emitted)))
        log += emitted[committed:ended]
        committed = draw(st.integers(committed, ended))
    return log + emitted[committed:]


@st.composite
def derived_topics(draw: st.DrawFn) -> dict[str, list[Marker]]:
    """The same partition of two topics; the causes of their records are in several partitions."""
    topics = {}
    for topic in TOPICS:
        logs = [draw(sent_again(partition)) for partition in range(3)]
        order = draw(st.permutations([number for number, log in enumerate(logs) for _ in log]))
        topics[topic] = [logs[number].pop(0) for number in order]
    return topics


def raw(topic: list[Marker], start: int, end: int) -> list[RawRecord]:
    return [(offset, offset, b"k", text(topic[offset]).encode()) for offset in range(start, min(end, len(topic)))]


def text(marker: Marker) -> str:
    return f"{marker.partition}-{marker.offset}-{marker.number}"


@given(derived_topics(), st.integers(1, 7))
def test_each_record_of_a_derived_topic_counts_once(topics: dict[str, list[Marker]], size: int) -> None:
    driver = Driver(APP, MemoryStore())
    markers = {topic: {o: marker.encode() for o, marker in enumerate(log)} for topic, log in topics.items()}
    for start in range(0, max(map(len, topics.values())), size):
        driver.feed(0, {topic: raw(log, start, start + size) for topic, log in topics.items()}, markers)
    distinct = {f"{topic} {text(marker)}" for topic, log in topics.items() for marker in log}
    snapshot = driver.store.read({0: [Fields("counts")]})[0]
    assert snapshot.values == [dict.fromkeys(distinct, 1)]
    repeats = sum(map(len, topics.values())) - len(distinct)
    assert snapshot.counters.get(REPEATS, 0) == repeats
    assert snapshot.counters.get("folded", 0) == len(distinct)


def test_records_without_a_marker_are_folded_as_they_are() -> None:
    driver = Driver(APP, MemoryStore())
    rows: list[RawRecord] = [(offset, 0, b"k", b"v") for offset in range(3)]
    driver.feed(0, {"pairs": rows}, {"pairs": {1: b"no marker"}})
    assert driver.store.read({0: [Fields("counts")]})[0].values == [{"pairs v": 3}]


# Records that cannot be folded: only these are dead-lettered, the same records for any batches.

MOST = 2**53
cuts = st.lists(st.integers(1, 29))


def number(_key: str, value: bytes | None) -> int:
    return int(value or b"")


def add(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Effect]:
    """Adds each number in a hash and in a ranking, and sends it on."""
    sums: Counter[str] = Counter()
    for record in records:
        sums[record.key] += record.value
        yield Emit("out", record.key.encode(), b"%d" % record.value, record)
    yield Merge("sums", add=dict(sums))
    yield IncrementScores("ranks", dict(sums))


SUMS = App("sums", (Fold((Source("in", TEXT, number),), add),))


def raw_of(values: Iterable[object]) -> list[RawRecord]:
    return [(offset, offset, b"a", str(value).encode()) for offset, value in enumerate(values)]


def folded(app: App, store: Store, raw: list[RawRecord], edges: Iterable[int] = ()) -> Driver:
    """`app` after `raw`, cut into batches before the `edges`."""
    driver = Driver(app, store)
    bounds = [0, *sorted(edge for edge in set(edges) if 0 < edge < len(raw)), len(raw)]
    for start, end in pairwise(bounds):
        driver.feed(0, {app.topics[0]: raw[start:end]})
    return driver


def dead(driver: Driver) -> list[int]:
    return [letter.offset for letter in driver.dead]


def accepted(values: Iterable[int]) -> tuple[int, list[int]]:
    """The sum of numbers, added in turn while within ±2^53, and the offsets of all other numbers."""
    total, refused = 0, []
    for offset, value in enumerate(values):
        if abs(total + value) > MOST:
            refused.append(offset)
        else:
            total += value
    return total, refused


@pytest.fixture(scope="session", params=["memory", "redis"])
def make_store(request: pytest.FixtureRequest) -> Callable[[], Store]:
    if request.param == "memory":
        return MemoryStore
    make: Callable[[], RedisStore] = request.getfixturevalue("redis_store")
    return make


rising = st.lists(st.integers(0, 5) | st.sampled_from([MOST, MOST - 1, MOST // 2, MOST // 2 + 1]), max_size=20)
either_way = st.builds(
    lambda start, steps: [start, *steps],
    st.sampled_from([MOST, MOST - 2, -MOST, MOST // 2, 0]),
    st.lists(st.integers(-5, 5) | st.sampled_from([2**35, -(2**35)]), max_size=20),
)


class TestNumbers:
    @settings(max_examples=60)
    @given(values=rising, edges=cuts)
    def test_the_records_that_take_a_number_beyond_are_the_same_however_they_are_cut(
        self, make_store: Callable[[], Store], values: list[int], edges: list[int]
    ) -> None:
        driver = folded(SUMS, make_store(), raw_of(values), edges)
        total, refused = accepted(values)
        hash_, ranks = driver.store.read({0: [Fields("sums"), Top("ranks", 1)]})[0].values
        assert (dict(hash_).get("a", 0), dict(ranks).get("a", 0)) == (total, total)
        assert dead(driver) == refused
        assert [emit.cause.offset for emit in driver.emitted] == [n for n in range(len(values)) if n not in refused]
        assert all(isinstance(letter.error, OverflowError) and letter.stage == "fold" for letter in driver.dead)

    @settings(max_examples=60)
    @given(values=either_way, edges=cuts)
    def test_a_number_that_rises_and_falls_is_the_sum_of_the_records_that_are_no_dead_letters(
        self, make_store: Callable[[], Store], values: list[int], edges: list[int]
    ) -> None:
        driver = folded(SUMS, make_store(), raw_of(values), edges)
        counted = [offset for offset in range(len(values)) if offset not in dead(driver)]
        total = sum(values[offset] for offset in counted)
        hash_, ranks = driver.store.read({0: [Fields("sums"), Top("ranks", 1)]})[0].values
        assert abs(total) <= MOST
        assert (dict(hash_).get("a", 0), dict(ranks).get("a", 0)) == (total, total)
        assert [emit.cause.offset for emit in driver.emitted] == counted

    @pytest.mark.parametrize("operation", ["least", "most"])
    def test_a_least_or_most_beyond_is_refused(self, operation: str) -> None:
        def keep(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Effect]:
            numbers = {record.key: record.value for record in records}
            yield Merge("kept", least=numbers) if operation == "least" else Merge("kept", most=numbers)

        driver = folded(
            App("kept", (Fold((Source("in", TEXT, number),), keep),)), MemoryStore(), raw_of([2**70, 7]), [1]
        )
        assert driver.store.read({0: [Fields("kept")]})[0].values == [{"a": 7}]
        assert dead(driver) == [0]

    @settings(max_examples=60)
    @given(st.lists(st.sampled_from([MOST, -MOST, 2**62, -(2**62)]), max_size=12), cuts)
    def test_the_sum_of_a_window_is_kept_within_64_bits(self, values: list[int], edges: list[int]) -> None:
        numbers = Source("in", TEXT, number)

        class Numbers(State, by=numbers):
            windows = HoppingWindows(100, 100, 100)

        @fold(numbers)
        def add_up(record: Record[str, int], state: Numbers) -> None:
            state.windows.add(record, record.value)

        driver = folded(App("windows", (add_up,)), MemoryStore(), raw_of(values), edges)
        total, refused = 0, []
        for offset, value in enumerate(values):
            if not -(2**63) <= total + value < 2**63:
                refused.append(offset)
            else:
                total += value
        entries = driver.store.read({0: [Between("windows:a", 0, 100, 1)]})[0].values[0]
        assert sum(json.loads(text)[-1] for text, _start in entries) == total
        assert dead(driver) == refused


def fail(records: Sequence[Record[str, str]], _context: FoldContext) -> Iterable[Effect]:
    """Keeps texts, but not the bad ones."""
    for record in records:
        if record.value == "bad":
            msg = "the fold meets its bug"
            raise ZeroDivisionError(msg)
        yield Emit("out", b"", record.value.encode(), record)
    yield PushRecent("texts", {f"{record.offset:03}": record.offset for record in records}, keep=100)


def fail_to_say(records: Sequence[Record[str, str]]) -> list[Newest]:
    return [Newest("texts", 1) for _ in range(len(list(fail(records, FoldContext()))))]


def fail_to_look_up(records: Sequence[Record[str, str]]) -> dict[str, list[str]]:
    list(fail(records, FoldContext()))
    return {}


def decoded(_key: str, value: bytes | None) -> str:
    return (value or b"").decode()


def keep(records: Sequence[Record[str, str]], _context: FoldContext) -> Iterable[Effect]:
    return fail([record for record in records if record.value != "bad"], FoldContext())


SOURCES = (Source("in", TEXT, decoded),)
FOLDS = {
    "apply": Fold(SOURCES, fail),
    "reads": Fold(SOURCES, keep, reads=fail_to_say),
    "lookups": Fold(SOURCES, keep, fail_to_look_up),
}


@pytest.mark.parametrize("where", FOLDS)
class TestFailingFolds:
    @settings(max_examples=60)
    @given(values=st.lists(st.sampled_from(["good", "bad"]), max_size=20), edges=cuts)
    def test_the_record_alone_is_a_dead_letter(self, where: str, values: list[str], edges: list[int]) -> None:
        driver = folded(App("failing", (FOLDS[where],)), MemoryStore(), raw_of(values), edges)
        bad = [offset for offset, value in enumerate(values) if value == "bad"]
        good = [offset for offset, value in enumerate(values) if value == "good"]
        assert dead(driver) == bad
        assert {str(letter.error) for letter in driver.dead} <= {"the fold meets its bug"}
        assert [emit.cause.offset for emit in driver.emitted] == good
        state = driver.store.read({0: [Newest("texts", 100)]})[0]
        assert [offset for _, offset in state.values[0]] == good[::-1]
        assert state.positions.get("in", 0) == len(values)
        assert state.counters.get("dead_letters", 0) == len(bad)


def test_memory_that_is_short_is_no_fault_of_a_record() -> None:
    def run_out(_records: Sequence[Record[str, str]], _context: FoldContext) -> Iterable[Effect]:
        raise MemoryError

    with pytest.raises(MemoryError):
        folded(App("short", (Fold(SOURCES, run_out),)), MemoryStore(), raw_of(["good"]))


def test_the_topics_of_a_fold_keep_their_order_around_a_record_that_fails() -> None:
    app = App("merged", (Fold((Source("left", TEXT, decoded), Source("right", TEXT, decoded)), fail),))
    driver = Driver(app, MemoryStore())
    left: list[RawRecord] = [(0, 1, b"a", b"l0"), (1, 4, b"a", b"bad"), (2, 6, b"a", b"l2")]
    right: list[RawRecord] = [(0, 2, b"a", b"r0"), (1, 3, b"a", b"bad"), (2, 4, b"a", b"r2"), (3, 7, b"a", b"r3")]
    driver.feed(0, {"left": left, "right": right})
    assert [emit.value for emit in driver.emitted] == [b"l0", b"r0", b"r2", b"l2", b"r3"]
    assert [(letter.topic, letter.offset) for letter in driver.dead] == [("right", 1), ("left", 1)]
    state = driver.store.read({0: []})[0]
    assert (state.positions, state.times) == ({"left": 3, "right": 4}, {"left": 6, "right": 7})
