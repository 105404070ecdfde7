"""Recommendations with names: the recommender's answers, decoded into structs that have room for a name."""

from collections.abc import Iterator

import msgspec

from services.gateway.names import Names, Thing


class Named(msgspec.Struct, kw_only=True):
    """A thing, and its name (null when none is known)."""

    id: int
    name: str | None = None


class NamedVia(Named, kw_only=True):
    """A known item, and how many of the walks came through it."""

    visits: int


class NamedItem(Named, kw_only=True):
    """An item that the user does not know, with its name. `score`: visits by walks; in a fallback, plays by all."""

    score: int
    via: list[NamedVia] | msgspec.UnsetType = msgspec.UNSET


class NamedRecommendations(msgspec.Struct, rename="camel"):
    """Items for a user, best first, ties by id.

    `walks` were done. `partial` says that the time ended before all were. `fallback` is `popular` where walks found
    nothing new, since the user has no plays or too few. `warnings` names each part that could not be had.
    """

    user_id: int
    items: list[NamedItem]
    walks: int
    partial: bool
    fallback: str | None
    warnings: list[str] = []


def things(kind: str, answer: NamedRecommendations) -> list[Thing]:
    """What has a name in `answer`: (kind, id)."""
    return list(dict.fromkeys((kind, target.id) for target in _targets(answer)))


def named(kind: str, answer: NamedRecommendations, names: Names, warnings: list[str]) -> NamedRecommendations:
    """`answer` with its names."""
    for target in _targets(answer):
        target.name = names.get((kind, target.id))
    answer.warnings = warnings
    return answer


def _targets(answer: NamedRecommendations) -> Iterator[Named]:
    for item in answer.items:
        yield item
        yield from item.via or ()
