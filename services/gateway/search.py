"""Users whose ids begin with some digits: those that exist among the shortest such ids."""

from typing import Annotated

import msgspec
from msgspec import Meta

from services.gateway.owners import Owners
from services.gateway.router import Router
from streamstate.keys import LONG_MAX
from streamstate.web.http.deadline import Deadline

MOST_DIGITS = 3
"""Ids have up to so many digits more than the prefix: of these, 1,111 are tried at most."""


class Search(msgspec.Struct, frozen=True):
    """The parameters of a search."""

    prefix: Annotated[str, Meta(pattern="^([1-9][0-9]{0,18}|0?)$", description="the first digits of the ids")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="most ids")] = 10


class Found(msgspec.Struct):
    """Ids of users. They are a sample: longer ids than those that were tried may begin with the same digits."""

    users: list[int]


def candidates(prefix: str, more: int) -> list[str]:
    """The ids that begin with `prefix` and have `more` further digits, in ascending order."""
    numbers = [f"{prefix}{number:0{more}}" for number in range(10**more)] if more else [prefix]
    return [text for text in numbers if text and (text == "0" or text[0] != "0") and int(text) <= LONG_MAX]


async def search(owners: Owners, router: Router, asked: Search, deadline: Deadline) -> Found:
    """Up to `asked.limit` users whom the required part of profiles knows, those with the shortest ids first."""
    view = next(iter(owners.parts))
    users: list[int] = []
    for more in range(MOST_DIGITS + 1):
        texts = candidates(asked.prefix, more)
        if texts and len(users) < asked.limit:
            answers = (await router.many([(view, text) for text in texts], deadline))[view]
            users += [int(text) for text in texts if answers[text]]
    return Found(users[: asked.limit])
