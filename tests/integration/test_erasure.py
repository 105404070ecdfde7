"""A user who is deleted from all services: nothing names the user any more, nor after a build from nothing."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import pytest
import redis
import urllib3

from services.clicks.model import USER_CLICKS, USER_REGIONS
from services.events import LISTENING_EVENTS
from services.notifications.model import OPEN, TICK
from services.recommendations.model import plays_of
from streamstate.keys import LONG, sortable
from tests.integration.driving import Driving
from tests.waiting import REQUEST_S, until, until_equal

USER = 987_654_321_012
"""An id whose digits occur nowhere else, so that a search finds every trace."""
SERVICES = ("metrics", "names", "recommendations", "clicks", "notifications", "habits")
PATH = f"/v1/users/{USER}"


def play(driving: Driving, times: int) -> None:
    """Plays, and every other record of a user. No click is counted, so that totals stay unchanged."""
    ids = {"artistId": 1, "albumId": 1, "trackId": 1}
    for number in range(times):
        event = {"userId": USER, **ids, "timestamp": 1_750_000_000_000 + number}
        driving.out.produce(LISTENING_EVENTS, json.dumps(event).encode(), LONG.encode(USER))
    key = str(USER).encode()
    for topic, value in ((USER_REGIONS, b"asia"), (USER_CLICKS, b"0"), (OPEN, b"Closed"), (TICK, b"")):
        driving.out.produce(topic, value, key)
    driving.out.flush()
    driving.settle()


def delete(driving: Driving) -> str:
    """Ask for the deletion, until all services answer; returns where it is told how far that is."""
    places: list[str] = []

    def accepted() -> bool:
        asked = urllib3.request("DELETE", f"{driving.cluster.url}{PATH}", timeout=REQUEST_S, retries=False)
        assert asked.status in (202, 503), asked.data
        places.extend([asked.headers["Location"]] if asked.status == 202 else [])
        return bool(places)

    until(accepted, "all services to take the request")
    return places[0]


def done(driving: Driving, place: str) -> bool:
    answer = driving.get(place)
    return answer.status == 200 and bool(answer.json()["done"])


READS: Mapping[str, Callable[[Any, bytes], object]] = {
    "string": lambda client, key: client.get(key),
    "hash": lambda client, key: client.hgetall(key),
    "zset": lambda client, key: client.zrange(key, 0, -1),
    "stream": lambda client, key: client.xrange(key),
}


def values(client: Any) -> Iterator[tuple[bytes, bytes]]:
    """Each key, and its value, unpacked."""
    for kind, read in READS.items():
        keys = client.scan_iter(count=2_000, _type=kind)
        while some := list(islice(keys, 1_000)):
            pipeline = client.pipeline(transaction=False)
            for key in some:
                read(pipeline, key)
            for key, value in zip(some, pipeline.execute(), strict=True):
                yield key, b"\n".join(parts(kind, value)) if value else b""


def parts(kind: str, value: Any) -> Iterable[bytes]:
    match kind:
        case "string":
            yield value
        case "hash":
            yield from chain(*value.items())
        case "zset":
            yield from value
        case "stream":
            for _, fields in value:
                yield base64.b64decode(fields[b"text"])
                yield str(plays_of(fields[b"text"])).encode()


def places(driving: Driving) -> list[str]:
    """Where something says the user's id: keys of Redis, answers, logs."""
    spelled = [str(USER).encode(), sortable(USER).encode(), LONG.encode(USER), USER.to_bytes(5, "little")]

    def names_user(text: bytes) -> bool:
        return any(each in text for each in spelled)

    client = redis.Redis(port=driving.cluster.redis.port)
    found = [key.decode() for key, value in values(client) if names_user(key) or names_user(value)]
    asked = (f"{PATH}/metrics", f"{PATH}/recent", f"{PATH}/export", f"/v1/notifications/{USER}")
    found += [path for path in asked if driving.get(path).status != 404]
    return found + [str(child.log) for child in driving.cluster.children if names_user(child.log.read_bytes())]


def export(driving: Driving) -> dict[str, Any]:
    return {each["service"]: each["held"] for each in driving.get(f"{PATH}/export").json().get("services", ())}


@pytest.fixture
def active(driving: Driving) -> Driving:
    """The ring, where the user is known to all services."""
    play(driving, 3)
    assert driving.get(f"{PATH}/metrics").json()["eventCount"] == 3
    until(lambda: set(export(driving)) >= set(SERVICES), "all services to hold something of the user")
    assert len(places(driving)) > len(SERVICES)
    return driving


def test_nothing_names_a_user_who_was_deleted(active: Driving) -> None:
    place = delete(active)
    until(lambda: done(active, place), "the services to forget the user")
    told = active.get(place).json()
    assert {each["service"] for each in told["services"]} >= set(SERVICES)
    until_equal(lambda: places(active), [], "the graphs to be loaded without the user")
    redis.Redis(port=active.cluster.redis.port).flushall()
    until(lambda: active.cluster.ready() and done(active, place), "the state to be built again")
    active.settle()
    until_equal(lambda: places(active), [], "the graphs to be loaded without the user")

    play(active, 1)
    assert active.get(f"{PATH}/metrics").json()["eventCount"] == 1
    assert len(active.get(f"{PATH}/recent").json()["recent"]) == 1
