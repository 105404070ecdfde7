"""Users by the first digits of their ids: all short ids, and a sample of longer ids."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from services.gateway.routing.directory import Directory
from services.gateway.routing.router import Router
from streamstate.keys import LONG_MAX
from streamstate.web.http.deadline import Deadline

MOST_DIGITS = 3
"""Further digits behind the prefix up to which all ids are tried: 1,111 at most."""

DRAWN = 64
"""Tried ids of each greater length: 1,024 at most."""


class Search(msgspec.Struct, frozen=True):
    """The parameters of a search."""

    prefix: Annotated[str, Meta(pattern="^([1-9][0-9]{0,18}|0?)$", description="the first digits of the ids")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="most ids")] = 10


class Found(msgspec.Struct):
    """Ids of users: a sample, since not all ids with the prefix are tried."""

    users: list[int]


def candidates(prefix: str, more: int) -> list[str]:
    """The ids with `prefix` and `more` further digits, in ascending order."""
    return _ids(prefix, more, range(10**more))


def drawn(prefix: str, more: int) -> list[str]:
    """A sample of `candidates`: an id of each of `DRAWN` equal shares, the same at each call."""
    share, dice = 10**more // DRAWN, Random(f"{prefix} {more}")  # noqa: S311, it guards no secret
    return _ids(prefix, more, (dice.randrange(share * number, share * (number + 1)) for number in range(DRAWN)))


def _ids(prefix: str, more: int, numbers: Iterable[int]) -> list[str]:
    texts = [f"{prefix}{number:0{more}}" for number in numbers] if more else [prefix]
    return [text for text in texts if text and (text == "0" or text[0] != "0") and int(text) <= LONG_MAX]


def tried(prefix: str) -> Iterator[list[str]]:
    """The ids to try, in lists, the shortest ids first."""
    for more in range(MOST_DIGITS + 1):
        yield candidates(prefix, more)
    longer = range(MOST_DIGITS + 1, len(str(LONG_MAX)) - len(prefix) + 1)
    yield [text for more in longer for text in drawn(prefix, more)]


async def search(directory: Directory, router: Router, asked: Search, deadline: Deadline) -> Found:
    """Up to `asked.limit` users known to the required part of profiles, the shortest ids first."""
    view = next(iter(directory.parts))
    users: list[int] = []
    for texts in tried(asked.prefix):
        if texts and len(users) < asked.limit:
            answers = (await router.many(directory, [(view, text) for text in texts], deadline))[view]
            users += [int(text) for text in texts if answers[text]]
    return Found(users[: asked.limit])
