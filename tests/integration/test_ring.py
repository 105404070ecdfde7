"""The whole ring: owners, names, recommendations, streams, and an open transaction."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import urllib3
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from devkit.cluster.local_cluster import get
from devkit.events import records
from devkit.events.records import event
from devkit.servers.child_process import LOCALHOST, listeners
from services.events import LISTENING_EVENTS
from streamstate.cli import status
from streamstate.cli.main import app
from streamstate.keys import LONG, partition_of
from streamstate.web.partition_map import PATH
from tests.integration.driving import Driving
from tests.serving import sample
from tests.waiting import until, until_equal

RECENT = 50


@pytest.mark.parametrize(("service", "shares"), [("metrics", [4, 4]), ("topics", [3, 3, 3])])
def test_instances_share_the_partitions_as_all_of_them_say(driving: Driving, service: str, shares: list[int]) -> None:
    addresses = driving.cluster.addresses[service]
    for found in (get(f"{driving.cluster.url}/v1/{service}/processors"), get(f"http://{addresses[-1]}{PATH}")):
        owned = {f"{one['host']}:{one['port']}": one["partitions"] for one in found["instances"]}
        assert sorted(owned) == sorted(addresses)
        assert [len(partitions) for partitions in owned.values()] == shares
        assert sorted(chain(*owned.values())) == list(range(sum(shares)))


def test_only_this_machine_reaches_the_ports_of_all_processes(driving: Driving) -> None:
    started = [psutil.Process(child.pid) for child in driving.cluster.children]
    pids = {process.pid for each in started for process in (each, *each.children(recursive=True))}
    listening = [(pid, address) for pid, address, _ in listeners() if pid in pids]
    assert {address.removeprefix("::ffff:") for _, address in listening} == {LOCALHOST}
    assert len({pid for pid, _ in listening}) >= len(started)


def test_recent_plays_take_less_than_3_kb_of_redis(driving: Driving) -> None:
    with redis.Redis(port=driving.cluster.redis.port) as client:
        keys = list(client.scan_iter(match="{names:*}:plays:*", count=10_000))
        full = [client.memory_usage(key) or 0 for key in keys if client.zcard(key) == RECENT]
    assert full
    assert max(full) <= 3_000


def test_a_name_that_changes_or_goes_shows_at_once(driving: Driving) -> None:
    send = driving.out.produce
    key = (1).to_bytes(8, "big")
    send("artists", json.dumps({"id": 1, "name": "Renamed ✨"}).encode(), key)
    driving.out.flush()
    until_equal(lambda: driving.get("/v1/artists/1").json().get("name"), "Renamed ✨", "the new name")
    send("artists", None, key)
    driving.out.flush()
    until_equal(lambda: driving.get("/v1/artists/1").status, 404, "the tombstone to delete the name")
    found = driving.get("/v1/many?artists=1&artists=2&albums=1").json()
    assert found["artists"]["1"] is None
    assert found["artists"]["2"]["id"] == found["albums"]["1"]["id"] + 1 == 2


# Recommendations on the ring: new to the user, and fresh.

NEWCOMER = 700_001
KNOWN_TRACK = 1


def test_an_event_can_be_walked(driving: Driving) -> None:
    """A newcomer gets popular items, and after the first play items of users with the same play."""
    path = f"/v1/users/{NEWCOMER}/recommendations/tracks"
    assert not _walked(f"{driving.cluster.url}{path}")
    key, value = records.event(NEWCOMER, 1, 1, KNOWN_TRACK, 1_000)
    driving.out.produce(LISTENING_EVENTS, value, key)
    driving.out.flush()
    for address in driving.cluster.addresses["recommendations"]:
        until(partial(_walked, f"http://{address}{path}"), "the play to be walked")


def _walked(url: str) -> bool:
    return bool(get(url)["fallback"] is None)


# Streams over the real ring: plays come in.

PAGE = Path("docs/using.md").read_text()
(SNIPPET,) = re.findall(r"^```python\n(.*?)^for ", PAGE, re.DOTALL | re.MULTILINE)
(CUT,) = re.findall(r"^redis-cli -u redis://127.0.0.1:6379 (client kill .*?) +#", PAGE, re.MULTILINE)


def test_no_read_fails_when_connections_to_redis_are_cut(driving: Driving) -> None:
    with redis.Redis(port=driving.cluster.redis.port) as client:
        for user in range(1, 61):
            assert driving.get(f"/v1/users/{user}/metrics").status < 500
            if user % 20 == 10:
                assert client.execute_command(*CUT.split()) > 1


def test_a_play_shows_in_the_stream(driving: Driving) -> None:
    """The client is that of the documentation, here at the address of the cluster."""
    found: dict[str, Any] = {}
    exec(SNIPPET.replace("http://127.0.0.1:8080", driving.cluster.url), found)
    with closing(found["profiles"](7_001)) as profiles:
        assert next(profiles) is None
        for plays in (1, 2):
            driving.feed([event(7_001, 1, 2, 3, 1_760_000_000_000 + plays)])
            # A profile may come with new recommendations only.
            profile = next(each for each in profiles if each["eventCount"] != plays - 1)
            assert (profile["eventCount"], profile["topTenArtists"][0]["countPlays"]) == (plays, plays)
    read = driving.get("/v1/users/7001?explain=true").json()
    assert {name: profile[name] for name in ("eventCount", "lastListeningEvent", "topTenTracks")} == {
        name: read[name] for name in ("eventCount", "lastListeningEvent", "topTenTracks")
    }
    assert profile.keys() == read.keys()


# An open transaction: the records behind its beginning wait, and freshness, lag and status tell.

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
        until_equal(lambda: answered(USER), 503, "the state to be too old")
        (address, *_) = driving.cluster.addresses["recommendations"]
        ends = get(f"http://{address}/processors")["partitions"][PLACE[1]]
        assert ends["ends"][LISTENING_EVENTS] - ends["positions"][LISTENING_EVENTS] == 1
        until_equal(held_back, 1, "the stream to tell of the record")
        assert told(driving, "streamstate_stream_lag") == 1
        printed = run("status", "metrics").stdout
        assert f"an open transaction holds back 1 records of {LISTENING_EVENTS}:{PLACE[1]} since 20" in printed
    finally:
        out.abort_transaction()
    driving.settle()
    until_equal(lambda: answered(1), 200, "the state to be fresh")
    assert "an open transaction" not in run("status", "metrics").stdout


def told(driving: Driving, metric: str) -> float | None:
    """A metric of the stream of metrics about the partition of the transaction."""
    scraped = "\n".join(driving.lines(f"http://{driving.cluster.status}/metrics")) + "\n"
    return sample(scraped, metric, service="metrics", topic=LISTENING_EVENTS, partition=str(PLACE[1]))
