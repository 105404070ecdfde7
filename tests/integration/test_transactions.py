"""An open transaction: the records behind its beginning wait, and freshness, lag and status tell."""

from collections.abc import Callable, Iterator

import pytest
import urllib3
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from devkit import records
from devkit.local_cluster import get
from services.events import LISTENING_EVENTS
from streamstate.cli import status
from streamstate.cli.main import app
from streamstate.keys import LONG, partition_of
from tests.integration.driving import Driving
from tests.serving import sample
from tests.waiting import until

Run = Callable[..., Result]

USER = 900_001
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


def test_what_an_open_transaction_holds_back_is_not_read(
    driving: Driving, out: Producer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "OPEN_S", 0.0)
    driving.settle()
    age = {"X-Max-Staleness": "1000", "X-Deadline-Ms": "2000"}

    def answered(user: int) -> int:
        path = f"{driving.cluster.url}/v1/users/{user}/metrics"
        return urllib3.request("GET", path, headers=age, retries=False).status

    def held_back() -> float | None:
        return told(driving, "streamstate_stream_held_back")

    assert answered(1) == 200
    out.begin_transaction()
    try:
        send(out)
        until(lambda: answered(USER) == 503, 30, "the state to be too old")
        (address, *_) = driving.cluster.addresses["recommendations"]
        ends = get(f"http://{address}/processors")["partitions"][PLACE[1]]
        assert ends["ends"][LISTENING_EVENTS] - ends["positions"][LISTENING_EVENTS] == 1
        until(lambda: held_back() == 1, 30, "the stream to tell of the record")
        assert told(driving, "streamstate_stream_lag") == 1
        printed = run("status", "metrics").stdout
        assert f"an open transaction holds back 1 records of {LISTENING_EVENTS}:{PLACE[1]} since 20" in printed
    finally:
        out.abort_transaction()
    driving.settle()
    until(lambda: answered(1) == 200, 60, "the state to be fresh")
    assert "an open transaction" not in run("status", "metrics").stdout


def told(driving: Driving, metric: str) -> float | None:
    """A metric of the stream of metrics about the partition of the transaction."""
    scraped = "\n".join(driving.lines(f"http://{driving.cluster.status}/metrics")) + "\n"
    return sample(scraped, metric, service="metrics", topic=LISTENING_EVENTS, partition=str(PLACE[1]))
