"""Whether a state may be read and continued by this release, with the topics and logs as they are."""

from collections.abc import Iterable, Mapping

import pytest
from msgspec.structs import replace

from streamstate.app import App, Derived, Fold, Setting, Source
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.claims import Claims
from streamstate.kafka.history import TopicHistory
from streamstate.keys import TEXT
from streamstate.processing.fitness import (
    LOST,
    allowed,
    left_out,
    missing_beginnings,
    passed,
    require_beginnings,
    require_same_folds,
    require_same_topics,
    require_same_widths,
)
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Put, Value
from streamstate.state.store import FORMAT, Allowance, Claim, Commit, OffsetAdvance, Origin, Snapshot, TopicPartition

# Whether a state may be read and continued by the folds of this release.


def app(version: int = 1, **settings: Setting) -> App:
    source = Source("plays", TEXT, lambda _key, value: value)
    return App("metrics", (Fold((source,), lambda _records, _context: (), version=version, settings=settings),))


def made_by(app: App) -> Snapshot:
    store = MemoryStore()
    claim = store.claim(0, "a:1", {}, folds=app.declarations)
    store.commit(Commit(claim, [OffsetAdvance("plays", None, 1)], []))
    return store.read({0: []})[0]


@pytest.mark.parametrize("state", [made_by(app(2, size_ms=5, on=True)), replace(made_by(app()), folds={}, format=None)])
def test_a_state_goes_on_with_the_fold_that_made_it_or_that_it_does_not_name(state: Snapshot) -> None:
    require_same_folds(app(2, on=True, size_ms=5), ["plays"], [state])


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        (app(1, size_ms=5), "version: 2, now 1"),
        (app(2, size_ms=6), "settings.size_ms: 5, now 6"),
        (app(2), "settings: absent, now {}, settings.size_ms: 5, now absent"),
        (app(2, size_ms=5, more=1), "settings.more: absent, now 1"),
    ],
)
def test_another_version_or_setting_is_refused_with_the_difference_and_the_ways_out(now: App, difference: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        require_same_folds(now, ["plays"], [made_by(app(2, size_ms=5))])
    for part in (f"({difference})", "go back to the release", "STREAMSTATE_NAME", "`streamstate reset SERVICE`"):
        assert part in str(refused.value)


def test_another_fold_is_no_matter_to_other_topics() -> None:
    require_same_folds(app(2), [], [made_by(app(1))])


def test_another_format_is_refused() -> None:
    later = replace(made_by(app()), format=FORMAT + 1)
    with pytest.raises(Misconfigured, match=f"format {FORMAT + 1}, and this release {FORMAT}; go back"):
        require_same_folds(app(), ["plays"], [later])


# Whether a state may be read and continued with the topics as they are.

THEN = {"plays": Origin("a", 8), "names": Origin("b", 4)}
BUILT = [{}, THEN]


@pytest.mark.parametrize("now", [THEN, {**THEN, "more": Origin("c", 2)}, {"plays": Origin("a", 8)}])
def test_a_state_goes_on_with_the_topics_that_it_knows(now: Mapping[str, Origin]) -> None:
    require_same_topics(BUILT, now)
    require_same_widths(BUILT, {topic: origin.partitions for topic, origin in now.items()})


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Origin("z", 8), "plays was deleted and made anew.* `streamstate reset SERVICE`"),
        (Origin("z", 12), "plays was deleted and made anew"),
        (Origin("a", 12), "plays has 12 partitions and had 8"),
    ],
)
def test_a_state_of_another_topic_is_not_continued(now: Origin, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        require_same_topics(BUILT, {**THEN, "plays": now})


# Where everything is read, the state stands at the end, whether a record is the last there or not.

READ = {"a": {"0": 7, "1": 9}, "b": {"0": 3}, "c": {"0": 2}, "elsewhere": {"1": 9}}


def test_the_state_goes_to_where_all_is_read_and_keeps_what_it_holds() -> None:
    store = MemoryStore()
    claim = store.claim(0, "a:1", {"a": 7, "b": 3, "c": 2})
    store.commit(Commit(claim, [OffsetAdvance("a", None, 5, 50)], [Put("k", "v")]))
    store.commit(Commit(claim, [OffsetAdvance("c", None, 2, 20)], []))
    commit = passed(claim, store.read({0: []})[0], READ)
    assert commit == Commit(claim, [OffsetAdvance("a", 5, 7, 50), OffsetAdvance("b", None, 3, 0)], [])
    store.commit(commit)
    found = store.read({0: [Value("k")]})[0]
    assert (found.positions, found.times, found.values) == ({"a": 7, "b": 3, "c": 2}, {"a": 50, "b": 0, "c": 20}, ["v"])
    assert found.ready("abc")
    assert passed(claim, found, READ) is None


# Logs that were cut: told, never passed over in silence.

BEHIND = Claim(3, 1, "run", {"a": 5, "b": 7, "c": 0}, {"a": 50, "b": 70})


def test_what_begins_behind_the_stored_offset_was_lost() -> None:
    assert left_out(BEHIND, {"a": 15, "b": 7, "c": 2}) == Commit(
        BEHIND, [OffsetAdvance("a", 5, 15, 50), OffsetAdvance("c", 0, 2, 0)], [], {LOST: 12}
    )


@pytest.mark.parametrize("begins", [{}, {"a": 0, "b": 7}, {"never read": 100}])
def test_nothing_is_lost_that_was_read_or_never_begun(begins: dict[str, int]) -> None:
    assert left_out(BEHIND, begins) is None


def test_an_operator_allows_what_was_deleted_by_then_and_not_what_comes_later() -> None:
    commit = left_out(BEHIND, {"a": 15, "b": 9})
    assert commit is not None
    assert not allowed(commit, {"a": Allowance(15, "why")})
    assert allowed(commit, {"a": Allowance(15, "why"), "b": Allowance(9, "why"), "c": Allowance(1, "why")})
    assert not allowed(commit, {"a": Allowance(14, "why"), "b": Allowance(9, "why")})


class Cut(Topics):
    """A partition of `a`, without the records before `begin`."""

    def __init__(self, begin: int) -> None:
        self.begin, self.end = begin, 100

    def begins(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.begin)

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.end)

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.ends(places)


def test_a_stream_goes_on_without_what_an_operator_allows_and_stops_at_the_next_loss() -> None:
    store, app = MemoryStore(), App("lost", (Fold((source("a"),), lambda _records, _context: ()),))
    store.commit(Commit(store.claim(0, "a:1", {"a": 9}), [OffsetAdvance("a", None, 5)], []))

    def claimed(begin: int) -> int:
        claims = Claims(app, store, TopicHistory(Cut(begin)), "a:1", truncated=(), skip_lost=False)
        return claims.claim([0], {"a": Origin("id", 1)})[1]["a", 0]

    with pytest.raises(Misconfigured, match="`streamstate allow SERVICE a --reason TEXT`"):
        claimed(15)
    store.allow(0, "a", Allowance(15, "why"))
    assert claimed(15) == 15
    assert store.read({0: []})[0].counters == {LOST: 10}
    with pytest.raises(Misconfigured, match="5 records of a:0 from offset 15"):
        claimed(20)


def test_a_topic_of_our_own_has_its_target_when_the_topics_behind_it_are_built_everywhere() -> None:
    store, own = MemoryStore(), {"keyed": Derived(TEXT, str)}
    app = App("own", tuple(Fold((source(t),), lambda _records, _context: ()) for t in ("keyed", "sales")), emits=own)
    topics = Cut(0)
    claims = Claims(app, store, TopicHistory(topics), "a:1", truncated=(), skip_lost=False)
    origins = {topic: Origin(topic, 2) for topic in app.topics}

    def built(partition: int, **offsets: int) -> None:
        for topic, end in offsets.items():
            claim = claims.claim([partition], origins)[0][partition]
            store.commit(Commit(claim, [OffsetAdvance(topic, claim.positions.get(topic), end)], []))

    def ready() -> list[bool]:
        return [snapshot.ready(["keyed"]) for snapshot in store.read({0: [], 1: []}).values()]

    built(0, sales=99, keyed=100)
    built(0, sales=100)
    assert claims.filling(origins)
    assert store.read({0: []})[0].progress(["keyed"]) == 0.99
    built(1, sales=100)
    assert not claims.filling(origins)
    assert ready() == [False, False]
    topics.end = 120
    built(0, keyed=119)
    built(1, keyed=120)
    assert ready() == [False, True]
    built(0, keyed=120)
    topics.end = 200
    claims.claim([0, 1], origins)
    assert ready() == [True, True]


def source(topic: str, *, requires_beginning: bool = True) -> Source[str, bytes | None]:
    return Source(topic, TEXT, lambda _key, value: value, requires_beginning=requires_beginning)


APP = App(
    "cut",
    (
        Fold((source("a"), source("b")), lambda _records, _context: ()),
        Fold((source("short", requires_beginning=False),), lambda _records, _context: ()),
    ),
)


def begun(**begins: int) -> Mapping[int, Snapshot]:
    store = MemoryStore()
    store.claim(3, "a:1", {}, begins=begins)
    return store.read({3: []})


def test_a_state_may_lack_what_is_allowed_or_not_required() -> None:
    snapshots = begun(a=5, b=7, short=9, before=1)
    require_beginnings(APP, APP.topics, snapshots, ["a", "b"])
    require_beginnings(APP, ["b", "short"], snapshots, ["b"])
    require_beginnings(APP, APP.topics, begun(a=0), [])
    require_beginnings(APP, APP.topics, begun(), [])
    assert missing_beginnings(APP, snapshots) == {("a", 3): 5, ("b", 3): 7}


def test_a_state_may_lack_what_an_operator_allows_it_to_lack() -> None:
    store = MemoryStore()
    store.claim(3, "a:1", {}, begins={"a": 5})
    store.allow(3, "a", Allowance(5, "why"))
    require_beginnings(APP, APP.topics, store.read({3: []}), [])
    store.claim(3, "a:1", {}, begins={"a": 6})
    with pytest.raises(Misconfigured, match=r"a:3 begins at offset 6.*`streamstate allow SERVICE a --reason TEXT`"):
        require_beginnings(APP, APP.topics, store.read({3: []}), [])
