"""Laws of every recount: it accepts exactly the state of the folds, for any records."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from services.recommendations import recount as recommendations
from streamstate.cli.services import Deployment, packages
from streamstate.erasure.deletions import erased
from streamstate.errors import Misconfigured
from streamstate.processing.decode import DEAD, MISPLACED
from streamstate.settings import CommandSettings
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.testing import Driver
from streamstate.verify import replay
from streamstate.verify.recount import Recount
from streamstate.verify.redis_state import RedisState
from streamstate.verify.replay import recounted, replayed
from tests.laws.test_app_laws import APPS, CONTROLLED, PARTITIONS, RECORDS, Records, numbered, pairs_of
from tests.laws.test_erasure_laws import ALL as ERASING
from tests.laws.test_erasure_laws import World, user_of

PROFILES = ("everything", "compact", "overall", "rekeyed")
SETTINGS = CommandSettings.model_validate({})
RECOUNTS = {
    **{name: Deployment(name, package, SETTINGS).recounted for name, package in packages(SETTINGS).items()},
    "kept": replayed(APPS["kept"]),
    "controlled": recommendations.recount(CONTROLLED),
    **{name: recounted(APPS[name]) for name in PROFILES},
    **{f"{name} replayed": replayed(APPS[name]) for name in (*PROFILES, "metrics")},
}


@pytest.fixture(scope="module", autouse=True)
def _short_batches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "BATCH", 5)
        yield


def message(topic: str, partition: int, record: Any) -> Message:
    offset, time, key, value = record
    return Message(topic=topic, partition=partition, offset=offset, key=key, value=value, timestamp=(1, time))


def recount(name: str, records: Records, partition: int) -> Recount:
    """The recount of `partition`, with dead letters left to the caller."""
    made = RECOUNTS[name].make()
    for topic, places in records.items():
        stream_time = 0
        for record in places[partition]:
            if made.add(message(topic, partition, record), max(stream_time, record[1])):
                stream_time = max(stream_time, record[1])
    return made


def recount_without(name: str, world: World) -> Recount:
    """The recount of the records of `world` that its deletions leave."""
    made, left_out = RECOUNTS[name].make(), RECOUNTS[name].make()
    bounds = erased(
        world.deletions.asked(world.app.name, 0, {topic: topic for topic in world.logs}), 0, world.app.rekeyed
    )
    for topic, log in world.logs.items():
        stream_time = 0
        for record in log:
            each = message(topic, 0, record)
            is_erased = record[0] < bounds.get((topic, 0), {}).get(record[2] or b"", 0)
            if (left_out if is_erased else made).add(each, max(stream_time, record[1])):
                stream_time = max(stream_time, record[1])
                if is_erased:
                    made.add_erased(each, stream_time)
    return made


@pytest.mark.parametrize("name", ERASING)
@settings(max_examples=30)
@given(data=st.data())
def test_a_recount_finds_the_state_without_deleted_users(
    name: str, data: st.DataObject, redis_client: Client, redis_name: Callable[[], str]
) -> None:
    service = redis_name()
    world = World(replace(APPS[name], name=service), RedisStore(redis_client, service))
    time = count()
    for _ in range(2):
        for topic in world.logs:
            for pair in data.draw(st.lists(RECORDS[topic], max_size=8)):
                world.produce(topic, pair, next(time))
        world.fold()
        users = next(fold for fold in world.app.folds if fold.users).sources[0].topic
        world.request(data.draw(user_of(world.app, users)))
        world.begin(world.driver.store)
    made, state = recount_without(name, world), RedisState(redis_client, service)
    keys = sorted({*state.keys(0), *made.expected_keys()})
    look = state.read(0, keys)
    assert [wrong for key, value in zip(keys, look.values, strict=True) if (wrong := made.wrong(key, value))] == []


def test_every_app_has_a_recount() -> None:
    assert set(RECOUNTS) >= set(APPS)


def test_a_fold_of_several_topics_needs_a_recount_of_its_own() -> None:
    with pytest.raises(Misconfigured, match=r"write services/clicks/recount.py \(docs/add-a-service.md#verification\)"):
        replayed(APPS["clicks"])


@pytest.mark.parametrize("name", RECOUNTS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_recount_finds_the_state_of_the_folds(
    name: str, data: st.DataObject, redis_client: Client, redis_name: Callable[[], str]
) -> None:
    service = redis_name()
    app = replace(APPS[name.removesuffix(" replayed")], name=service)
    records = numbered(data.draw(pairs_of(app)))
    driver = Driver(app, RedisStore(redis_client, service), PARTITIONS)
    for topic, places in records.items():
        for partition, raw in places.items():
            if raw:
                driver.feed(partition, {topic: raw})
    state = RedisState(redis_client, service)
    for partition in range(PARTITIONS):
        made = recount(name, records, partition)
        keys = sorted({*state.keys(partition), *made.expected_keys()})
        look = state.read(partition, keys)
        assert [wrong for key, value in zip(keys, look.values, strict=True) if (wrong := made.wrong(key, value))] == []
        assert made.wrong("no such key", b"?")
        for key in made.expected_keys():
            assert made.wrong(key, None), key
        for key, value in zip(keys, look.values, strict=True):
            assert made.wrong(key, b"1" if value == b"0" else b"0"), key
        counted = {field.removeprefix("count:"): int(n) for field, n in look.held.items() if field.startswith("count:")}
        assert {what: n for what, n in made.counts.items() if n} == {
            what: n
            for what, n in counted.items()
            if not what.startswith(DEAD) and what not in (MISPLACED, *made.unsure)
        }
