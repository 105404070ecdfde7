"""A state built from an archive after Kafka has deleted the records."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import records
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer
from streamstate.verify.redis_state import RedisState
from tests.archiving import archive, cut
from tests.deployment import SETTLED_S, Deployment
from tests.integration.releases import Releases
from tests.waiting import until

PLAYS, USERS, PARTITIONS = 20_000, 60, 3


@pytest.fixture
def kept(releases: Releases, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment of metrics that has folded some plays."""
    deployment = Deployment(releases.cluster, request.node.name.replace("_", "-"), host=releases.make)
    deployment.create(PARTITIONS)
    deployment.archive = str(tmp_path)
    play(deployment)
    yield deployment
    deployment.close()


def play(deployment: Deployment) -> None:
    out = producer(deployment.cluster.kafka.bootstrap)
    for number in range(PLAYS):
        key, value = records.event(number % USERS, number % 7, number % 11, number % 13, 1_750_000_000_000 + number)
        out.produce(deployment.topic, value, key)
        if number % 5_000 == 0:
            out.flush()
    out.flush()


def contents(deployment: Deployment) -> dict[str, object]:
    """All keys of the state, and its positions."""
    state, found = RedisState(deployment.client, deployment.name), dict[str, object]()
    for partition in range(PARTITIONS):
        keys = sorted(state.keys(partition))
        look = state.read(partition, keys)
        found |= {f"{partition}:{key}": value for key, value in zip(keys, look.values, strict=True)}
        found |= {f"{partition}:{field}": at for field, at in look.held.items() if not field.startswith(UNEQUAL)}
    return found


UNEQUAL = ("owner", "epoch", "begun", "ended", "target")
"""What differs between two builds."""


def settle(deployment: Deployment) -> None:
    """Wait until the state has reached the ends of the topic."""
    topics = Topics(deployment.cluster.kafka.bootstrap)
    ends = topics.ends((deployment.topic, partition) for partition in range(PARTITIONS))

    def reached() -> bool:
        snapshots = deployment.store.read({partition: [] for partition in range(PARTITIONS)})
        return all(snapshots[p].positions.get(topic, 0) == end for (topic, p), end in ends.items())

    until(reached, SETTLED_S, "the build")


def test_every_key_is_as_before(kept: Deployment) -> None:
    kept.stream()
    settle(kept)
    for child in kept.started:
        child.stop()
    before = contents(kept)
    assert len(before) > 3 * USERS
    ends = archive(kept.archive, kept.cluster.kafka.bootstrap, {kept.topic: 0.6})
    cut(kept.cluster.kafka.bootstrap, {place: end * 5 // 6 for place, end in ends.items()})
    kept.empty()
    kept.stream()
    settle(kept)
    assert contents(kept) == before
    assert "the archive is folded" in kept.started[-1].tail(500)
    assert kept.command("verify", status=0)["differences"] == []
