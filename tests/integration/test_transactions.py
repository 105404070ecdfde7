"""Records of transactions: counted when committed, and offsets without a record hold nothing up."""

import time
from collections.abc import Callable, Iterator

import pytest
import redis
import urllib3
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from devkit import records
from services.events import LISTENING_EVENTS
from streamstate.cli.main import app
from streamstate.cli.status import OPEN_S
from streamstate.kafka.admin import Topics
from streamstate.keys import LONG, partition_of
from tests.integration.driving import Driving
from tests.serving import sample
from tests.waiting import until

Run = Callable[..., Result]

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


@pytest.fixture
def run(driving: Driving) -> Run:
    return lambda *arguments: CliRunner().invoke(app, arguments, env=driving.environment())


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
    until(lambda: ends([PLACE])[PLACE] == before + 2, 30, "the record and the marker to show")
    driving.settle()
    assert driving.get(f"/v1/users/{USER}").json()["eventCount"] == 1
    assert driving.differences(*READERS) == []


def test_what_an_open_transaction_holds_back_is_not_read(driving: Driving, out: Producer, run: Run) -> None:
    driving.settle()
    age = {"X-Max-Staleness": "1000", "X-Deadline-Ms": "2000"}
    path = f"{driving.cluster.url}/v1/users/1/metrics"
    assert urllib3.request("GET", path, headers=age).status == 200
    out.begin_transaction()
    try:
        send(out)
        time.sleep(OPEN_S)
        told = urllib3.request("GET", f"{driving.cluster.url}/v1/users/{USER}/metrics", headers=age, retries=False)
        assert told.status == 503
        (address, *_) = driving.cluster.addresses["recommendations"]
        ends = urllib3.request("GET", f"http://{address}/processors").json()["partitions"][PLACE[1]]
        assert ends["ends"][LISTENING_EVENTS] - ends["positions"][LISTENING_EVENTS] == 1
        held_back = "streamstate_stream_held_back"
        scraped = "\n".join(driving.lines(f"http://{driving.cluster.status}/metrics")) + "\n"
        place = {"topic": LISTENING_EVENTS, "partition": str(PLACE[1])}
        assert sample(scraped, held_back, service="metrics", **place) == 1
        assert sample(scraped, "streamstate_stream_lag", service="metrics", **place) == 1
        status = run("status", "metrics").stdout
        assert f"an open transaction holds back 1 records of {LISTENING_EVENTS}:{PLACE[1]} since 20" in status
        # A build is not complete without them.
        redis.Redis(port=driving.cluster.redis.port).flushall()
        names = f"http://{driving.cluster.addresses['names'][0]}/processors"
        until(lambda: not urllib3.request("GET", names).json()["partitions"][PLACE[1]]["ready"], 30, "a new build")
        time.sleep(5)
        assert not urllib3.request("GET", names).json()["partitions"][PLACE[1]]["ready"]
    finally:
        out.abort_transaction()
    driving.settle()
    until(lambda: urllib3.request("GET", path, headers=age).status == 200, 60, "the state to be fresh")
    assert "an open transaction" not in run("status", "metrics").stdout


def test_a_state_built_from_nothing_is_complete_at_such_an_end(driving: Driving) -> None:
    driving.settle()
    redis.Redis(port=driving.cluster.redis.port).flushall()
    driving.settle()
    until(lambda: driving.get(f"/v1/users/{USER}").status == 200, 60, "the state to be complete")
    assert driving.differences(*READERS) == []
