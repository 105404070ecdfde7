"""A state of many partitions: what an answer says of it fits into the head of any proxy, and is a demand as before."""

import pytest

from streamstate.state.store import Commit, OffsetAdvance, Origin
from streamstate.web.consistency import Demand
from streamstate.web.freshness import EACH, MOST_BYTES, bounded_text, offsets_of
from streamstate.web.http.deadline import MIN_POSITION
from streamstate.web.http.request import POSITION
from tests.unit.web.conftest import Instance, Service

PARTITIONS = 1_024
TOPICS = ("numbers", "words")


def advance(service: Service, address: str, partition: int, start: int | None, end: int) -> None:
    origins = {topic: Origin(topic, PARTITIONS) for topic in TOPICS}
    claim = service.store.claim(partition, address, dict.fromkeys(TOPICS, 1), origins)
    service.store.commit(Commit(claim, [OffsetAdvance(topic, start, end) for topic in TOPICS], []))
    service.topics.written |= {(topic, partition): end for topic in TOPICS}


@pytest.fixture
def wide(service: Service) -> Instance:
    service.topics.counts = dict.fromkeys(TOPICS, PARTITIONS)
    instance = service.instance()
    for partition in range(PARTITIONS):
        advance(service, instance.address, partition, None, 10**12 + partition)
    service.freshness.refresh()
    return instance


def test_the_position_of_all_partitions_fits_into_a_header(service: Service, wide: Instance) -> None:
    told = wide.client.get("/v1/all").headers
    assert told[POSITION] == ", ".join(f"{topic}:*={10**12 + PARTITIONS - 1}" for topic in TOPICS)
    assert sum(len(name) + len(text) + 4 for name, text in told.items()) < 2_048

    def status() -> int:
        headers = {MIN_POSITION: told[POSITION], "X-Deadline-Ms": "1000"}
        return wide.client.get("/v1/all", headers=headers).status_code

    # Each partition is at its end, though most of them stand before the greatest offset.
    assert status() == 200
    service.topics.written["words", 7] += 1
    assert status() == 503
    advance(service, wide.address, 7, 10**12 + 7, 10**12 + 8)
    assert status() == 200


def test_a_position_that_fits_stays_exact() -> None:
    few = {("topic", partition): 10**9 + partition for partition in range(30)}
    assert offsets_of(bounded_text(few)) == few
    many = {("topic", partition): 10**9 + partition for partition in range(100)}
    assert offsets_of(bounded_text(many)) == {("topic", EACH): 10**9 + 99}
    assert len(bounded_text({(f"topic-{n}", p): 10**17 for n in range(4) for p in range(PARTITIONS)})) <= MOST_BYTES


def test_a_demand_of_each_partition_is_met_at_the_offset_or_at_the_end() -> None:
    demand = Demand({("a", EACH): 9}, None, {("a", 0): 5, ("a", 1): 12})
    assert demand.lacking({("a", 0): 5, ("a", 1): 9, ("b", 0): 0}, None) == ""
    assert "partition 0 of a is 1 records before" in demand.lacking({("a", 0): 4, ("a", 1): 9}, None)
    assert "partition 1 of a is 1 records before" in demand.lacking({("a", 0): 5, ("a", 1): 8}, None)
