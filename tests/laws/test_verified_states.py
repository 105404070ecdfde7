"""Laws of `verify`: it accepts the state of the folds for any records, and finds what no replay of them gives."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.app import App, Emit
from streamstate.erasure.applying import Erased
from streamstate.erasure.deletions import erased
from streamstate.kafka.dlq.records import derived as written
from streamstate.keys import Marker
from streamstate.replay import engine
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import tag
from streamstate.testing import Driver
from streamstate.verify.keys import KeyCheck
from streamstate.verify.outputs import OutputCheck, derived
from streamstate.verify.partition import PartitionReplay
from streamstate.verify.readable import answer, unexpired
from streamstate.verify.redis_state import RedisState
from tests.in_memory_history import inputs, message
from tests.laws.test_app_laws import APPS, PARTITIONS, RECORDS, Records, numbered, pairs_of
from tests.laws.test_erasure_laws import ALL as ERASING
from tests.laws.test_erasure_laws import World, user_of

SINGLE = [name for name, app in APPS.items() if not app.merges]
"""The apps whose state does not depend on the micro-batches that merged topics."""


@pytest.fixture(scope="module", autouse=True)
def _short_batches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "BATCH", 5)
        yield


class Stored:
    """The state of `app` in Redis, and its check."""

    def __init__(self, app: App, client: Client) -> None:
        self.app = app
        self.client = client
        self.store = RedisStore(client, app.name)
        self.state = RedisState(client, app.name)

    def folded(self, records: Records, cuts: Sequence[int] = ()) -> Driver:
        driver = Driver(self.app, self.store, PARTITIONS)
        for topic, places in records.items():
            for partition, raw in places.items():
                edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
                for start, end in pairwise(edges):
                    driver.feed(partition, {topic: raw[start:end]})
        return driver

    def replay(self, records: Records, partition: int, left_out: Erased | None = None) -> PartitionReplay:
        messages = [message(topic, partition, raw) for topic, of in records.items() for raw in of.get(partition, ())]
        deletions = self.store.inspect(partition, []).deletions
        made = inputs(self.app, messages, 1 if left_out is not None else PARTITIONS)
        return PartitionReplay(made, partition, left_out or {}, deletions, lambda _records: None)

    def differences(self, records: Records, partition: int, left_out: Erased | None = None) -> list[str]:
        with self.replay(records, partition, left_out) as replay:
            return list(map(str, KeyCheck(self.store, self.state, partition, replay).run()))


StoreOf = Callable[[str], Stored]


@pytest.fixture(scope="module")
def store_of(redis_client: Client, redis_name: Callable[[], str]) -> StoreOf:
    """Makes an empty state of an app of `APPS`."""
    return lambda name: Stored(replace(APPS[name], name=redis_name()), redis_client)


@pytest.mark.parametrize("name", APPS)
@settings(max_examples=25)
@given(data=st.data())
def test_the_state_of_the_folds_has_no_difference(name: str, data: st.DataObject, store_of: StoreOf) -> None:
    stored = store_of(name)
    records = numbered(data.draw(pairs_of(stored.app)))
    stored.folded(records, data.draw(st.lists(st.integers(1, 12), max_size=4)))
    for partition in range(PARTITIONS):
        assert stored.differences(records, partition) == []


@pytest.mark.parametrize("name", SINGLE)
@settings(max_examples=15)
@given(data=st.data())
def test_a_lost_torn_or_foreign_key_is_a_difference(name: str, data: st.DataObject, store_of: StoreOf) -> None:
    stored = store_of(name)
    records = numbered(data.draw(pairs_of(stored.app)))
    stored.folded(records)
    prefix = tag(stored.app.name, 0)
    with stored.replay(records, 0) as replay:
        check = KeyCheck(stored.store, stored.state, 0, replay)
        stored.client.set(f"{prefix}:no such key", "1")
        stored.client.hincrby(prefix, "count:dead_letters", 1)
        foreign = [each.place for each in check.run()]
        assert foreign == [f"{prefix}:no such key", prefix]
        if keys := sorted(key for key in stored.state.keys(0) if key != "no such key" and not_expired(replay, key)):
            spoilt = f"{prefix}:{data.draw(st.sampled_from(keys))}"
            stored.client.delete(spoilt)
            assert len(check.run()) > len(foreign), spoilt
            stored.client.rpush(spoilt, "torn")
            assert spoilt in [each.place for each in check.run()]


def not_expired(replay: PartitionReplay, key: str) -> bool:
    """Whether the key has more than expired entries, which a stream removes in steps."""
    readable = replay.readable(key)
    return readable is None or any(unexpired(read, answer(replay.replays[0].keys, read), 0) for read in readable.reads)


@pytest.mark.parametrize("name", APPS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_number_that_counts_twice_is_a_difference(name: str, data: st.DataObject, store_of: StoreOf) -> None:
    """Merged topics included, of which the totals are certain."""
    stored = store_of(name)
    records = numbered(data.draw(pairs_of(stored.app)))
    stored.folded(records)
    prefix = tag(stored.app.name, 0)
    with stored.replay(records, 0) as replay:
        sums = [key for key in replay.written() if isinstance(replay.readable(key).reads[0], Fields)]  # type: ignore[union-attr]
        if fields := [(key, field) for key in sums for field in stored.client.hkeys(f"{prefix}:{key}")]:
            key, field = data.draw(st.sampled_from(fields))
            stored.client.hincrby(f"{prefix}:{key}", field, 1)
            [difference] = KeyCheck(stored.store, stored.state, 0, replay).run()
            assert difference.place == f"{prefix}:{key}"


@pytest.mark.parametrize("name", ERASING)
@settings(max_examples=15)
@given(data=st.data())
def test_the_state_without_deleted_users_has_no_difference(name: str, data: st.DataObject, store_of: StoreOf) -> None:
    stored = store_of(name)
    world = World(stored.app, stored.store)
    time = count()
    for _ in range(2):
        for topic in world.logs:
            for pair in data.draw(st.lists(RECORDS[topic], max_size=8)):
                world.produce(topic, pair, next(time))
        world.fold()
        users = next(fold for fold in world.app.folds if fold.users).sources[0].topic
        world.request(data.draw(user_of(world.app, users)))
        world.begin(world.driver.store)
    asked = world.deletions.asked(world.app.name, 0, {topic: topic for topic in world.logs})
    left_out = erased(asked, 0, world.app.rekeyed)
    assert stored.differences({topic: {0: log} for topic, log in world.logs.items()}, 0, left_out) == []


def sent(emits: Sequence[Emit], app: App, partition: int) -> list[Any]:
    """The records of `emits` as the stream writes them."""
    ids = {source.own_name: source.topic for source in app.sources}
    made = []
    for offset, record in enumerate(written(app, emits, partition, ids)):
        topic, key, value, headers = record[:4]
        made.append(message(topic, 0, (offset, record[4] if len(record) == 5 else 0, key, value), headers))
    return made


@pytest.mark.parametrize("name", [name for name in SINGLE if APPS[name].emits and name != "names"])
@settings(max_examples=25)
@given(data=st.data())
def test_each_output_must_be_in_its_topic_and_no_other(name: str, data: st.DataObject, store_of: StoreOf) -> None:
    stored = store_of(name)
    records = numbered(data.draw(pairs_of(stored.app)))
    partition = data.draw(st.integers(0, PARTITIONS - 1))
    own = {topic: {partition: places[partition]} for topic, places in records.items()}
    driver = stored.folded(own)
    with stored.replay(own, partition) as replay:
        KeyCheck(stored.store, stored.state, partition, replay).run()
        caused = replay.replays[0].outputs.caused
    for of in caused.values():
        of.reached = 10**6
    topics = {stored.app.output(topic): of for topic, of in stored.app.emits.items()}
    all_sent = sent(driver.emitted, stored.app, partition)

    def faults(messages: Sequence[Any]) -> list[str]:
        check = OutputCheck(caused, lambda _place, _offset: True)
        wrong = [check.wrong(each.topic(), derived(each, dated=topics[each.topic()].dated)) or "" for each in messages]
        return [*filter(None, wrong), *map(str, check.missing())]

    assert faults([*all_sent, *all_sent]) == []
    for index, lost in enumerate(all_sent):
        assert len(faults(all_sent[:index] + all_sent[index + 1 :])) == 1
        raw = lost.offset(), lost.timestamp()[1], lost.key(), b"another"
        other = message(lost.topic(), 0, raw, lost.headers())
        assert faults([*all_sent, other]) == [f"differs from the effect of {cause_of(lost)}"]


def cause_of(record: Any) -> str:
    marker = Marker.from_headers(record.headers())
    assert marker
    return ":".join(map(str, marker[:3]))
