"""`make verify` finds nothing where nothing is wrong, and whatever is."""

import threading
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
import redis

from tests.integration.driving import Driving


@pytest.fixture
def client(driving: Driving) -> Iterator[redis.Redis]:
    driving.settle()
    with redis.Redis.from_url(driving.cluster.redis.url) as client:
        yield client


def test_nothing_differs_while_the_streams_run(driving: Driving) -> None:
    sending = threading.Thread(target=lambda: driving.feed(islice(driving.events, 20_000)))
    sending.start()
    try:
        assert driving.differences() == []
    finally:
        sending.join()


SPOILT: dict[str, tuple[str, Callable[[redis.Redis, bytes], object]]] = {
    "a count": ("{metrics:*}:user:1", lambda client, key: client.hincrby(key, "count", 1)),
    "a play": ("{metrics:*}:user:1:artists", lambda client, key: client.zincrby(key, -1, "a1")),
    "a stray play": ("{metrics:*}:user:1:tracks", lambda client, key: client.zadd(key, {"a0": 0})),
    "a key that is gone": ("{metrics:*}:user:2:albums", lambda client, key: client.delete(key)),
    "a counter": ("{metrics:0}", lambda client, key: client.hincrby(key, "count:dead_letters", 1)),
    "a stream time": ("{metrics:1}", lambda client, key: client.hincrby(key, "time:listening-events", 1)),
    "a name": ("{names:*}:artists:2", lambda client, key: client.set(key, "another")),
    "a recent play": ("{names:*}:user:2:plays", lambda client, key: client.zremrangebyrank(key, -1, -1)),
    "a time of play": ("{names:*}:user:1:plays", lambda client, key: client.zunionstore(key, {key: 2})),
    "a log": (
        "{recommendations:0}:plays",
        lambda client, key: client.xtrim(key, client.xlen(key) - 1, approximate=False),
    ),
}


STRAY = ["{metrics:0}:user:77777777", "{metrics:99}:user:1", "{metrics:0}x", "{metrics:5}:é"]


@pytest.mark.parametrize("service", ["metrics", "names", "recommendations"])
def test_all_that_is_spoilt_is_found(driving: Driving, client: redis.Redis, service: str) -> None:
    """Each key once, and so is each key that should not be."""
    before: dict[bytes, bytes] = {}
    stray = [key for key in STRAY if service in key]
    for pattern, spoil in SPOILT.values():
        if service in pattern:
            (key,) = client.scan_iter(match=pattern, count=10_000)
            before[key] = client.dump(key) or b""
            spoil(client, key)
    for name in stray:
        client.set(name, "?")
    try:
        found = [difference.place.partition(" ")[0] for difference in driving.differences(service)]
    finally:
        client.delete(*before, *stray)
        for key, value in before.items():
            client.restore(key, 0, value)
    assert sorted(found) == sorted([*stray, *(key.decode() for key in before)])
