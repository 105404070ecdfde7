"""Plays and names on the ring: shared by instances, and equal to a recount while they come."""

import json
from itertools import chain

import pytest
import redis

from devkit.local_cluster import get
from streamstate.web.partition_map import PATH
from tests.integration.driving import Driving
from tests.waiting import until

RECENT = 50


@pytest.mark.parametrize(("service", "shares"), [("metrics", [4, 4]), ("topics", [3, 3, 3])])
def test_instances_share_the_partitions_as_all_of_them_say(driving: Driving, service: str, shares: list[int]) -> None:
    addresses = driving.cluster.addresses[service]
    for found in (get(f"{driving.cluster.url}/v1/{service}/processors"), get(f"http://{addresses[-1]}{PATH}")):
        owned = {f"{one['host']}:{one['port']}": one["partitions"] for one in found["instances"]}
        assert sorted(owned) == sorted(addresses)
        assert [len(partitions) for partitions in owned.values()] == shares
        assert sorted(chain(*owned.values())) == list(range(sum(shares)))


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
    until(lambda: driving.get("/v1/artists/1").json().get("name") == "Renamed ✨", 30, "the new name")
    send("artists", None, key)
    driving.out.flush()
    until(lambda: driving.get("/v1/artists/1").status == 404, 30, "the tombstone to delete the name")
    found = driving.get("/v1/many?artists=1&artists=2&albums=1").json()
    assert found["artists"]["1"] is None
    assert found["artists"]["2"]["id"] == found["albums"]["1"]["id"] + 1 == 2
