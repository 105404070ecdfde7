"""The load of a fault: reads are about users without further plays, writes about other users."""

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import urllib3

from devkit.events import records
from devkit.lab.load import Reads, Request, asking, sending
from streamstate.kafka.producer import Outgoing

WRITES_PER_S = 800
READS_PER_S = 100
FIRST_MOVING = 1_000_000
MOVING = 2_000
ATTEMPTS = 60
BROKEN = 500
"""One event in so many cannot be used."""


def writing(kafka: str, topic: str, draw: random.Random, users: int = MOVING) -> AbstractContextManager[None]:
    """Send events of `users` who are not read to `topic`."""
    return sending(kafka, _events(topic, draw.randrange, users), WRITES_PER_S)


def _events(topic: str, draw: Any, users: int) -> Iterator[Outgoing]:
    while True:
        play = draw(60), draw(200), draw(900), 1_750_000_000_000 + draw(10**9)
        key, value = records.event(FIRST_MOVING + draw(users), *play)
        yield topic, key, value if draw(BROKEN) else value[:-1], []


def reading(
    url: str, expected: Mapping[int, Any], reads: Reads, per_s: float = READS_PER_S
) -> AbstractContextManager[None]:
    """Read the profiles `expected` (by user, without names) at `url`."""
    users = sorted(expected)

    def request(number: int) -> Request:
        user = users[number % len(users)]
        return Request(user, f"/v1/users/{user}/metrics", partial(judge, expected[user]))

    return asking(url, request, reads, per_s)


def judge(expected: Any, answer: urllib3.BaseHTTPResponse) -> tuple[str, str]:
    """How the read failed, and what is wrong with the answer; empty for a good one."""
    if answer.status == 200:
        profile = without_names(answer.json())
        return ("", "") if profile == expected else ("", f"expected {expected}, profile {profile}")
    problem = answer.headers.get("Content-Type") == "application/problem+json"
    if answer.status in (503, 504) and problem and (answer.status == 504 or "Retry-After" in answer.headers):
        return str(answer.status), ""
    return str(answer.status), f"{answer.status} {answer.data[:200]!r}"


def without_names(profile: Any) -> Any:
    """A profile as the state of metrics alone makes it."""
    charts = {name: [(row["id"], row["countPlays"]) for row in profile[name]] for name in profile if "topTen" in name}
    return {
        name: profile[name] for name in ("userId", "eventCount", "firstListeningEvent", "lastListeningEvent")
    } | charts


def known(url: str, users: Iterable[int]) -> dict[int, Any]:
    """The profiles of `users` as `url` tells them, without names; a read that is refused is asked again."""
    return {user: _profile(f"{url}/v1/users/{user}/metrics") for user in users}


def _profile(url: str) -> Any:
    for _ in range(ATTEMPTS):
        answer = urllib3.request("GET", url, timeout=10, retries=False)
        if answer.status == 200:
            return without_names(answer.json())
        time.sleep(1)
    raise AssertionError(f"{url} answered {answer.status}: {answer.data.decode()}")
