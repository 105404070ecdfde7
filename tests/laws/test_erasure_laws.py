"""Laws of an erasure: the state equals a fold of the remaining records, at any position and after any loss."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.recommendations.packing import unpack
from streamstate.app import App
from streamstate.erasure.applying import pending, personal, steps
from streamstate.erasure.deletions import Bound, DeletionRecord, Deletions, erased
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin, Store
from streamstate.testing import Driver
from tests.laws.test_app_laws import APPS, RECORDS, Pair

ONE_TOPIC = [name for name, app in APPS.items() if any(fold.users for fold in app.folds) and not app.merges]
"""What is merged depends on when micro-batches are cut: a build may differ from the state, erasure or not."""

ALL = [name for name, app in APPS.items() if any(fold.users for fold in app.folds)]


class World:
    """A topic of deletions, the topics of `app` in one partition, and a stream whose state may be lost."""

    def __init__(self, app: App, store: Store | None = None) -> None:
        self.app = app
        self.deletions = Deletions()
        self.logs: dict[str, list[RawRecord]] = {topic: [] for topic in app.topics}
        self.origins = {topic: Origin(topic, 1) for topic in app.topics}
        self.written = 0
        self.begin(store or MemoryStore())

    def begin(self, store: Store, *, dies: bool = False) -> None:
        """A query starts over `store`, and may die after the publication of its receipts."""
        self.driver = Driver(self.app, store)
        claim = store.claim(0, "driver:1", {}, self.origins)
        asked = self.deletions.asked(self.app.name, 0, {topic: topic for topic in self.app.topics})
        for step in steps(self.app, store, claim, self.origins, pending(asked, claim)):
            self.write(step.receipts)
            if dies:
                return
            store.commit(step.commit)
        known = self.deletions.asked(self.app.name, 0, {topic: topic for topic in self.app.topics})
        self.driver.claims = {0: store.claim(0, "driver:1", {}, self.origins)}
        self.driver.folds = {0: personal(self.app, 0, erased(known, 0, self.app.rekeyed), keep_seen=False)}

    def write(self, deletions: Iterable[DeletionRecord]) -> None:
        for deletion in deletions:
            self.deletions.add(self.written, deletion)
            self.written += 1

    def produce(self, topic: str, pair: Pair, time: int) -> None:
        log = self.logs[topic]
        log.append((len(log), time, *pair))

    def fold(self, most: int = 10**6) -> None:
        """At most so many records of each topic."""
        held = self.driver.store.read({0: []})[0].positions
        starts = {topic: held.get(topic, 0) for topic in self.logs}
        batches = {topic: log[starts[topic] : starts[topic] + most] for topic, log in self.logs.items()}
        for topic, batch in batches.items():
            if batch:
                self.driver.feed(0, {topic: batch})

    def request(self, user: str) -> None:
        bounds = {
            source.topic: Bound(source.topic, source.key.encode(source.key.parse(user)), len(self.logs[source.topic]))
            for fold in self.app.folds
            if fold.users
            for source in fold.sources
        }
        self.write([DeletionRecord(user, self.app.name, 0, bounds)])

    @property
    def state(self) -> Mapping[str, Any]:
        """The keys of the state, and what is packed there."""
        keys = self.driver.store._partitions[0].keys  # type: ignore[attr-defined]
        plain = {key: _plain(value, keys) for key, value in keys.items()}
        return {key: value for key, value in plain.items() if value}


def _plain(value: Any, keys: Mapping[str, Any]) -> Any:
    if hasattr(value, "timelines"):
        # A family may name an empty timeline.
        return sorted(name for name in value.timelines if keys.get(name))
    if hasattr(value, "entries"):
        return [play for text in value.entries.values() for play in unpack(text).ids.tolist()]
    return value


def user_of(app: App, topic: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["0", "1"] if app.source(topic).key.name == "long" else ["amy", "bob"])


def played(name: str, data: st.DataObject) -> World:
    """A history: records come, are folded, users are deleted, and processes and states are lost."""
    app = APPS[name]
    world = World(app)
    users = next(fold for fold in app.folds if fold.users).sources[0].topic
    acts = st.sampled_from([*app.topics, *app.topics, "fold", "some", "request", "begin", "die", "lose"])
    for time, act in enumerate(data.draw(st.lists(acts, max_size=30))):
        match act:
            case "fold":
                world.fold()
            case "some":
                world.fold(1)
            case "request":
                world.request(data.draw(user_of(app, users)))
            case "begin":
                world.begin(world.driver.store)
            case "die":
                world.begin(world.driver.store, dies=True)
                world.begin(world.driver.store)
            case "lose":
                world.begin(MemoryStore())
            case topic:
                world.produce(topic, data.draw(RECORDS[topic]), time)
    world.begin(world.driver.store)
    world.fold()
    return world


@pytest.mark.parametrize("name", ONE_TOPIC)
@settings(max_examples=80)
@given(data=st.data())
def test_the_state_is_that_of_the_records_that_remain_also_when_it_is_built_from_nothing(
    name: str, data: st.DataObject
) -> None:
    """Except counts that name no user: they still count all records."""
    world = played(name, data)
    bounds = erased(world.deletions.asked(name, 0, {topic: topic for topic in world.logs}), 0, world.app.rekeyed)
    rest = World(world.app)
    rest.driver.folds = {0: personal(world.app, 0, bounds, keep_seen=False)}
    for topic, log in world.logs.items():
        # What is left out lets time go on all the same.
        kept = [record for record in log if record[0] >= bounds.get((topic, 0), {}).get(record[2] or b"", 0)]
        rest.driver.feed(0, {topic: [*kept, *log[-1:]]})

    def named(state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: value for key, value in state.items() if name != "metrics" or not names_nobody(key)}

    state = world.state
    assert named(state) == named(rest.state)
    world.begin(MemoryStore())
    world.fold()
    assert world.state == state


def names_nobody(key: str) -> bool:
    """Whether a key holds numbers of a profile over all keys."""
    return key == "numbers" or key.partition(":")[0] == "slots"


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=30)
@given(data=st.data())
def test_nothing_names_a_user_who_is_deleted_last(name: str, data: st.DataObject) -> None:
    world = played(name, data)
    topic = next(fold for fold in world.app.folds if fold.users).sources[0].topic
    user = data.draw(user_of(world.app, topic))
    world.request(user)
    for store in (world.driver.store, MemoryStore()):
        world.begin(store)
        world.fold()
        keys = [key for key in world.state if key.partition(":")[0] not in world.app.tables and not names_nobody(key)]
        assert not any(user in key.split(":") for key in keys)
        assert not any(user in value for value in world.state.values() if isinstance(value, list | set))
        for log in (value for value in world.state.values() if isinstance(value, list)):
            assert not any(isinstance(play, list) and play[0] == int(user) for play in log)
        assert 0 < (world.driver.store.read({0: []})[0].deletions or 0) <= world.written
