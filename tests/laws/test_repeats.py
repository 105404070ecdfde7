"""A derived topic as an input: whatever is sent again, and however it is cut into batches, counts once."""

from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Count, Effect, Fold, FoldContext, Record, Source
from streamstate.keys import TEXT, Marker
from streamstate.operators.repeats import REPEATS, without_repeats
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Fields, Merge, Value
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
