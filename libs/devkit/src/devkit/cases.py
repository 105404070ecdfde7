"""Invented records for clicks, notifications and topics: everything follows from a seed."""

import json
from collections.abc import Iterator
from random import Random

from devkit import topics
from streamstate.kafka.producer import Outgoing
from streamstate.keys import LONG

USERS = 20
REGIONS = ("africa", "americas", "asia", "europe", "oceania")


def records(seed: int) -> Iterator[Outgoing]:
    """Without end: users who have regions, mostly, move and click; who open, close and are ticked; who book."""
    draw = Random(seed)  # noqa: S311, nothing secret
    for number in range(1, USERS):
        yield _text(topics.USER_REGIONS, number, draw.choice(REGIONS))
        yield _text(topics.OPEN, number, draw.choice(("Open", "Closed")))
    while True:
        number = draw.randint(1, USERS)
        booking = json.dumps({"amount": draw.randint(10, 500), "room": draw.randint(1, 99)}).encode()
        yield from (
            _text(topics.USER_CLICKS, number, str(draw.randint(1, 9))),
            _text(topics.TICK, draw.randint(1, USERS), ""),
            (topics.BOOKINGS, LONG.encode(number), booking, []),
        )
        if draw.random() < 0.1:
            yield _text(topics.USER_REGIONS, number, draw.choice(REGIONS))
            yield _text(topics.OPEN, number, draw.choice(("Open", "Closed")))


def _text(topic: str, user: int, value: str) -> Outgoing:
    return topic, f"user-{user}".encode(), value.encode(), []
