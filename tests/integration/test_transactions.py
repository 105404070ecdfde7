"""Records of transactions: counted when committed, and offsets without a record hold nothing up."""

from collections.abc import Callable, Iterator

import pytest
import redis
from confluent_kafka import Producer

from devkit import records
from services.events import LISTENING_EVENTS
from streamstate.kafka.admin import Topics
from streamstate.keys import LONG, partition_of
from tests.integration.driving import Driving, eventually

USER = 900_001
READERS = ("metrics", "names", "recommendations")
PLACE = (LISTENING_EVENTS, partition_of(LONG.encode(USER), 8))


@pytest.fixture
def out(driving: Driving) -> Iterator[Producer]:
    out = Producer(
        {
            "bootstrap.servers": driving.cluster.kafka.bootstrap,
            "transactional.id": "test",
            "partitioner": "murmur2_random",
            "log_level": 0,
        }
    )
    out.init_transactions(30)
    yield out
    out.flush()


def send(out: Producer) -> None:
    key, value = records.event(USER, 1, 1, 1, 1)
    out.produce(LISTENING_EVENTS, value, key)
    out.flush()


@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.abort_transaction])
def test_a_state_reaches_an_end_that_is_no_record_and_counts_nothing_aborted(
    driving: Driving, out: Producer, end: Callable[[Producer], None]
) -> None:
    driving.settle()
    ends = Topics(driving.cluster.kafka.bootstrap).ends
    before = ends([PLACE])[PLACE]
    out.begin_transaction()
    send(out)
    assert ends([PLACE])[PLACE] == before
    end(out)
    eventually(lambda: ends([PLACE])[PLACE] == before + 2, "the record and the marker to show")
    driving.settle()
    assert driving.get(f"/v1/users/{USER}").json()["eventCount"] == 1
    assert driving.differences(*READERS) == []


def test_a_state_built_from_nothing_is_complete_at_such_an_end(driving: Driving) -> None:
    driving.settle()
    redis.Redis(port=driving.cluster.redis.port).flushall()
    driving.settle()
    eventually(lambda: driving.get(f"/v1/users/{USER}").status == 200, "the state to be complete", 60)
    assert driving.differences(*READERS) == []
