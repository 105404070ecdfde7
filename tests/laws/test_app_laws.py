"""Laws of every app: the records determine the state, whatever the batches."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit import registry
from devkit.registry import SERVICES
from services.recommendations import model as recommendations
from services.recommendations.settings import WindowSettings
from services.topics import model as kept
from services.topics.settings import KeptSettings, KeptTopic, RangeIndex, WindowIndex
from streamstate.app import App
from streamstate.deployment.overrides import renamed
from streamstate.keys import INT, LONG, LONG_MAX, PAIR, UUID, partition_of
from streamstate.processing.decode import Admission, RawRecord, decode_records
from streamstate.profile import profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.indexes.views import CountKeys, FindKeys
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from streamstate.view import View
from tests.raw import ByTopic, name_json, plain, play_json
from tests.worked_profile import COMPACT, EVERYTHING, OVERALL, REKEYED, event_json, profile_events, purchases

PARTITIONS = 2
COMMUTATIVE = ("metrics",)

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""

ids = st.integers(0, 4) | st.sampled_from([LONG_MAX])
plays = st.tuples(ids, ids, ids, ids, st.integers(0, 3) | st.integers(0, 2 * 10**12))
labels = st.text(max_size=5, alphabet=st.characters(exclude_categories=["Cs"]))
broken = st.sampled_from([b"", b"{", b"null", b"[]", b'{"userId": "1"}', b"\xff", b'{"id": 0}'])

amounts = st.integers(-5, 5) | st.sampled_from([2**53, -(2**53)])
users = st.sampled_from([b"amy", b"bob", b"cat"])
changes = st.tuples(st.sampled_from([b"tea", b"cake"]), st.integers(1, 3))

SIZES = [0, 9, 10, INT.most]
CARTS = ["00000000-0000-0000-0000-000000000000", "0b6f1c1e-7a57-4d9c-9a3e-0f3a8f1d2c4b"]
STOCK = ["a:1", "a:1:2", "a-b:1", "é:\U0010ffff"]

DRAWN: dict[str, st.SearchStrategy[Pair]] = {
    "listening-events": plays.map(lambda play: (LONG.encode(play[0]), play_json(play))),
    **{
        topic: st.tuples(ids, st.none() | labels).map(
            lambda pair: (LONG.encode(pair[0]), None if pair[1] is None else name_json(pair[0], pair[1]))
        )
        for topic in ("artists", "albums", "tracks")
    },
    "user-clicks": st.tuples(users, st.integers(0, 3).map(lambda number: b"%d" % number)),
    "user-regions": st.tuples(users, st.none() | st.sampled_from([b"asia", b"europe"])),
    "open": st.tuples(users, st.none() | st.sampled_from([b"Open", b"Close", b"Closed"])),
    "tick": st.tuples(users, st.just(b"")),
    "bookings": st.tuples(ids.map(LONG.encode), st.none() | amounts.map(b'{"amount": %d}'.__mod__)),
    "lines": st.tuples(users, st.none() | st.sampled_from([b"amy, Bob", b" - ", b"Dan bob dan_"])),
    **{
        topic: st.tuples(users, changes.map(lambda change: b'{"item": "%s", "quantity": %d}' % change))
        for topic in ("restocked", "sold")
    },
    **{topic: st.tuples(users, st.none() | labels.map(str.encode)) for topic in ("orders", "payments")},
    "words": st.tuples(users, st.none() | labels.map(str.encode)),
    "blobs": st.tuples(users, st.none() | st.binary(max_size=5)),
    "sizes": st.tuples(st.sampled_from(SIZES).map(INT.encode), st.none() | labels.map(str.encode)),
    "events": profile_events.map(lambda event: (LONG.encode(event["key"]), event_json(event))),
    "purchases": st.tuples(st.none() | st.binary(max_size=3), st.none() | purchases),
    REKEYED.keyed_topic: st.tuples(st.integers(0, 2).map(LONG.encode), purchases),
    "carts": st.tuples(st.sampled_from(CARTS).map(UUID.encode), st.none() | labels.map(str.encode)),
    "stock": st.tuples(st.sampled_from(STOCK).map(PAIR.encode), st.none() | labels.map(str.encode)),
    "recommendation-rules": st.tuples(
        st.sampled_from([b"tracks:1", b"artists:2", b"category:live", b"artist:1"]),
        st.none() | st.sampled_from([b'{"rule": "deny"}', b'{"categories": ["live"]}', b"{}", b'{"rule": "no"}']),
    ),
    "shown": st.tuples(ids.map(LONG.encode), ids.map(b'{"kind": "tracks", "id": %d}'.__mod__)),
}
RECORDS = ByTopic("DRAWN of tests/laws/test_app_laws.py", '"TOPIC": st.tuples(users, st.just(b"{}"))', DRAWN)
"""A strategy of the records of each topic that an app reads; a new topic needs one here."""

KEYS: dict[str, list[str]] = {
    "long": [*map(str, range(6)), str(LONG_MAX)],
    "int": [*map(str, SIZES), "1"],
    "uuid": CARTS,
    "pair": [*STOCK, "b:1"],
    "text": ["amy", "bob", "cat", "dan", "asia", "europe", "UNKNOWN"],
}
"""Keys with and without records, by the type of a view's key."""

BAD: st.SearchStrategy[Pair] = st.tuples(ids.map(LONG.encode) | st.just(b"key"), broken)

KEPT = (
    KeptTopic(topic="words", key="text", value="text", users=True, keys=True, range=RangeIndex(retention_ms=5)),
    KeptTopic(topic="blobs", key="text", value="bytes", users=True, latest=False, range=RangeIndex(retention_ms=7)),
    KeptTopic(
        topic="bookings",
        key="long",
        value="json",
        windows=WindowIndex(field="amount", size_ms=4, advance_ms=2, grace_ms=1, retention_ms=6),
    ),
    KeptTopic(topic="sizes", key="int", value="text", keys=True),
    KeptTopic(topic="carts", key="uuid", value="text", keys=True),
    KeptTopic(topic="stock", key="pair", value="text", keys=True),
)
"""Every kind of key and index, with retentions as short as the histories of these tests."""

CONTROLLED = WindowSettings(window=1_000, recommendation_rules=True, shown=2)
"""Recommendations with all topics that control them."""

Records = dict[str, dict[int, list[RawRecord]]]
"""By topic and partition, in offset order."""


APPS = {
    **{name: registry.app(name) for name in SERVICES},
    "kept": renamed(kept.app(KeptSettings(kept=KEPT)), "kept", {}),
    "everything": profile_app(EVERYTHING),
    "compact": profile_app(COMPACT),
    "overall": profile_app(OVERALL),
    "rekeyed": profile_app(REKEYED),
    "controlled": renamed(recommendations.app(CONTROLLED), "controlled", {}),
}
MERGING = [name for name, app in APPS.items() if app.merges]


later = count(1_000).__next__


def numbered(pairs: dict[str, list[Pair]], time: Callable[[], int] = later) -> Records:
    """Records with partitions and offsets, with gaps as aborted transactions leave them, and with times."""
    records: Records = {}
    for topic, drawn in pairs.items():
        places = records.setdefault(topic, {p: [] for p in range(PARTITIONS)})
        for number, (key, value) in enumerate(drawn):
            place = places[partition_of(key or b"", PARTITIONS)]
            place.append((number * 2, time(), key, value))
    return records


def pairs_of(app: App) -> st.SearchStrategy[dict[str, list[Pair]]]:
    return st.fixed_dictionaries({topic: st.lists(RECORDS[topic] | BAD, max_size=12) for topic in app.topics})


def folded(app: App, records: Records, cuts: Sequence[int] = ()) -> Driver:
    """`app` after all of `records`, topic by topic, cut into batches before the `cuts`."""
    driver = Driver(app, MemoryStore(), PARTITIONS)
    for topic, places in records.items():
        for partition, batch in places.items():
            edges = [0, *sorted(cut for cut in set(cuts) if 0 < cut < len(batch)), len(batch)]
            for start, end in pairwise(edges):
                driver.feed(partition, {topic: batch[start:end]})
    return driver


def query(view: View[Any]) -> msgspec.Struct | None:
    """Windows that end at the same moment in each answer."""
    if view.query in (FindKeys, CountKeys):
        return view.query(where=("plays_2d.ge.1", "spent_ever.lt.2"), at=5_000)
    return Moment(5_000) if view.query is Moment else None


def answers(driver: Driver) -> dict[str, Any]:
    """All views of all keys."""
    return {
        f"{view.name} {key}": plain(driver.view(view.name, key, query(view)))
        for view in driver.app.views
        for key in (KEYS[view.key.name] if view.key else [""])
    }


def without_topic_ids(found: dict[str, Any]) -> Any:
    """Answers without the ids of topics in positions."""
    return json.loads(re.sub(r'; id=[^"]*', "", json.dumps(found)))


def counts(driver: Driver) -> list[Any]:
    snapshots = driver.store.read({p: [] for p in range(PARTITIONS)}).values()
    return [(snapshot.positions, snapshot.counters) for snapshot in snapshots]


def effects(driver: Driver) -> list[Any]:
    """Emitted and dead-lettered records, in an order independent of the batches."""
    emitted = [(emit.topic, emit.key, emit.cause.offset, emit.value) for emit in driver.emitted]
    return [sorted(emitted), sorted((letter.offset, letter.key or b"", letter.value or b"") for letter in driver.dead)]


def state(driver: Driver) -> tuple[Any, Any, Any]:
    return answers(driver), counts(driver), effects(driver)


VERSIONED = [(name, view.name) for name, app in APPS.items() for view in app.views if view.version]


@pytest.mark.parametrize(("name", "view"), VERSIONED)
@settings(max_examples=40)
@given(data=st.data())
def test_an_answer_that_changes_has_another_version(name: str, view: str, data: st.DataObject) -> None:
    app = APPS[name]
    views = tuple(version for each in app.views if (version := each.versions))
    versioned = Driver(replace(app, views=views), MemoryStore(), PARTITIONS)
    # The app claims the partitions last.
    driver = Driver(app, versioned.store, PARTITIONS)
    before = _told(driver, versioned, view)
    for topic, places in numbered(data.draw(pairs_of(app))).items():
        for partition, record in ((partition, record) for partition, batch in places.items() for record in batch):
            driver.feed(partition, {topic: [record]})
            after = _told(driver, versioned, view)
            for (answer, version), (answer_then, version_then) in zip(before, after, strict=True):
                assert answer == answer_then or version != version_then
            before = after


def _told(driver: Driver, versioned: Driver, view: str) -> list[tuple[Any, Any]]:
    """The answer and the version of each key."""
    [of] = [each for each in driver.app.views if each.name == view]
    keys = KEYS[of.key.name] if of.key else []
    return [(plain(driver.view(view, key, query(of))), versioned.view(view, key)) for key in keys]


@pytest.mark.parametrize("name", APPS)
class TestEveryApp:
    @settings(max_examples=20)
    @given(data=st.data())
    def test_a_deployment_over_other_topics_makes_the_same_state(self, name: str, data: st.DataObject) -> None:
        app = APPS[name]
        outputs = (*app.emits, *(totals.topic for totals in app.totals))
        # Its folds must not take a topic for the one whose name it has.
        others = dict(zip(app.topics, (*app.topics[1:], "another"), strict=True))
        other = renamed(app, "other", {topic: f"other-{topic}" for topic in outputs} | others)
        records = numbered(data.draw(pairs_of(app)))
        own, there = folded(app, records), folded(other, {others[topic]: places for topic, places in records.items()})
        assert without_topic_ids(answers(there)) == without_topic_ids(answers(own))
        assert effects(there) == effects(own)
        positions = [{others[topic]: offset for topic, offset in stored.items()} for stored, _ in counts(own)]
        assert [stored for stored, _ in counts(there)] == positions

    @settings(max_examples=60)
    @given(data=st.data())
    def test_any_cutting_into_batches_and_any_repeats_give_the_same_state(self, name: str, data: st.DataObject) -> None:
        app = APPS[name]
        records = numbered(data.draw(pairs_of(app)), lambda: data.draw(st.integers(0, 20)))
        whole, cut = folded(app, records), folded(app, records, data.draw(st.lists(st.integers(1, 11))))
        expected = state(whole)
        assert state(cut) == expected
        for topic, places in records.items():
            for partition, raw in places.items():
                cut.feed(partition, {topic: raw[data.draw(st.integers(0, 12)) :]})
        assert state(cut) == expected
        assert {emit.topic for emit in whole.emitted} <= set(app.emits)


def in_order(app: App, records: Records, partition: int) -> list[tuple[str, RawRecord]]:
    """All records of a partition by the greatest timestamp so far of their topic; ties in the order of the topics.

    Those that cannot be decoded have no timestamp of their own.
    """
    placed = []
    for rank, topic in enumerate(app.topics):
        decoded = decode_records(app.source(topic), records[topic][partition], (None, 0), (0, 1), Admission(2**63))
        for raw, entry in zip(records[topic][partition], decoded.entries, strict=True):
            placed.append((entry.stream_time, rank, topic, raw))
    return [(topic, raw) for *_, topic, raw in sorted(placed, key=lambda entry: entry[:2])]


@pytest.mark.parametrize("name", MERGING)
@settings(max_examples=60)
@given(data=st.data())
def test_any_cutting_of_merged_topics_gives_the_same_state(name: str, data: st.DataObject) -> None:
    app = APPS[name]
    records = numbered(data.draw(pairs_of(app)), lambda: data.draw(st.integers(0, 9)))
    whole, cut = Driver(app, MemoryStore(), PARTITIONS), Driver(app, MemoryStore(), PARTITIONS)
    for partition in range(PARTITIONS):
        whole.feed(partition, {topic: places[partition] for topic, places in records.items()})
        ordered = in_order(app, records, partition)
        edges = data.draw(st.lists(st.integers(1, 23)))
        for start, end in pairwise([0, *sorted({edge for edge in edges if edge < len(ordered)}), len(ordered)]):
            batch = ordered[start:end]
            cut.feed(partition, {topic: [record for of, record in batch if of == topic] for topic in records})
    assert state(cut) == state(whole)


@pytest.mark.parametrize("name", COMMUTATIVE)
@settings(max_examples=60)
@given(data=st.data())
def test_the_order_of_records_does_not_matter(name: str, data: st.DataObject) -> None:
    app = APPS[name]
    pairs = data.draw(pairs_of(app))
    shuffled = {topic: data.draw(st.permutations(drawn)) for topic, drawn in pairs.items()}
    assert answers(folded(app, numbered(shuffled))) == answers(folded(app, numbered(pairs)))


def test_a_topic_without_records_says_which_line_to_add_where() -> None:
    line = r'add a line such as "tickets": st.tuples\(.*\) to DRAWN of tests/laws/test_app_laws.py'
    with pytest.raises(LookupError, match=line):
        RECORDS["tickets"]
