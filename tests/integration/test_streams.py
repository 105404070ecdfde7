"""Streams over the real ring: plays come in, and an owner is killed."""

import json
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import urllib3

from devkit.child_process import Child
from devkit.local_cluster import answers
from devkit.records import event
from tests.integration.driving import Driving

(SNIPPET,) = re.findall(r"^```python\n(.*?)^for ", Path("docs/using.md").read_text(), re.DOTALL | re.MULTILINE)
_TIMES = count(1_760_000_000_000)

Watch = Callable[[int], Generator[Any]]


@pytest.fixture
def watch(driving: Driving) -> Iterator[Watch]:
    """The client that the documentation shows, here at the address of the cluster; its streams end with the test."""
    found: dict[str, Any] = {}
    exec(SNIPPET.replace("http://127.0.0.1:8080", driving.cluster.url), found)
    with ExitStack() as streams:
        yield lambda user: streams.enter_context(closing(found["profiles"](user)))


def play(driving: Driving, user: int) -> None:
    driving.feed([event(user, 1, 2, 3, next(_TIMES))])


def owner(driving: Driving, user: int) -> tuple[str, Child]:
    address = driving.get(f"/v1/users/{user}/metrics").headers["Served-By"]
    number = driving.cluster.addresses["metrics"].index(address)
    return address, next(api for api in driving.cluster.apis if api.name == f"metrics-{number}")


def owner_states(driving: Driving, address: str) -> Generator[set[str]]:
    """How the owners of the service metrics at `address` are, now and whenever the system changes."""
    url = f"{driving.cluster.url}/v1/system/stream"
    with urllib3.request("GET", url, preload_content=False, timeout=30) as system:
        for line in system:
            if line.startswith(b"data: "):
                services = {each["name"]: each["owners"] for each in json.loads(line[6:])["services"]}
                yield {owner["state"] for owner in services["metrics"] if owner["address"] == address}


def with_plays(profiles: Iterator[Any], plays: int) -> dict[str, Any]:
    """The next profile with `plays` plays, skipping profiles with new recommendations only."""
    profile: dict[str, Any] = next(each for each in profiles if each["eventCount"] != plays - 1)
    assert profile["eventCount"] == plays
    return profile


def test_a_play_shows_in_the_stream(driving: Driving, watch: Watch) -> None:
    profiles = watch(7_001)
    assert next(profiles) is None
    for plays in (1, 2):
        play(driving, 7_001)
        profile = with_plays(profiles, plays)
        assert profile["topTenArtists"][0]["countPlays"] == plays
    read = driving.get("/v1/users/7001?explain=true").json()
    assert {name: profile[name] for name in ("eventCount", "lastListeningEvent", "topTenTracks")} == {
        name: read[name] for name in ("eventCount", "lastListeningEvent", "topTenTracks")
    }
    assert profile.keys() == read.keys()


def test_the_death_of_an_owner_is_told_and_loses_nothing(driving: Driving, watch: Watch) -> None:
    play(driving, 7_002)
    driving.settle()
    profiles = watch(7_002)
    assert next(profiles)["eventCount"] == 1
    address, api = owner(driving, 7_002)
    with closing(owner_states(driving, address)) as states:
        assert next(states) == {"ready"}
        try:
            api.kill()
            killed = time.monotonic()
            assert next(state for state in states if state != {"ready"}) == {"none"}
            assert time.monotonic() - killed < 2
            play(driving, 7_002)
            with_plays(profiles, 2)
        finally:
            api.start()
            api.wait_until(lambda: answers(f"http://{address}/readyz"), timeout=30)
        assert next(state for state in states if state == {"ready"})
    play(driving, 7_002)
    with_plays(profiles, 3)
