"""Generated records for clicks, notifications and topics, determined by a seed."""

import json
from collections.abc import Iterator
from random import Random
from typing import get_args

from services.clicks.model import USER_CLICKS, USER_REGIONS
from services.notifications.model import OPEN, TICK, Viewing
from services.topics.settings import EXAMPLE
from streamstate.kafka.producer import Outgoing
from streamstate.keys import LONG

USERS = 20
REGIONS = ("africa", "americas", "asia", "europe", "oceania")


def records(seed: int) -> Iterator[Outgoing]:
    """An endless sequence: regions and clicks, opened and closed notifications and ticks, bookings."""
    draw = Random(seed)  # noqa: S311, nothing secret
    for number in range(1, USERS):
        yield _text(USER_REGIONS, number, draw.choice(REGIONS))
        yield _text(OPEN, number, draw.choice(get_args(Viewing)))
    while True:
        number = draw.randint(1, USERS)
        booking = json.dumps({"amount": draw.randint(10, 500), "room": draw.randint(1, 99)}).encode()
        yield from (
            _text(USER_CLICKS, number, str(draw.randint(1, 9))),
            _text(TICK, draw.randint(1, USERS), ""),
            (EXAMPLE.topic, LONG.encode(number), booking, []),
        )
        if draw.random() < 0.1:
            yield _text(USER_REGIONS, number, draw.choice(REGIONS))
            yield _text(OPEN, number, draw.choice(get_args(Viewing)))


def ticks() -> Iterator[Outgoing]:
    """A tick of every user."""
    return (_text(TICK, number, "") for number in range(1, USERS + 1))


def _text(topic: str, user: int, value: str) -> Outgoing:
    return topic, f"user-{user}".encode(), value.encode(), []
