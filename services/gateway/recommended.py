"""Recommendations with names: whose names they need, and where they go."""

from collections.abc import Mapping

import msgspec

from services.gateway.names import Thing
from services.recommendations.answers import Recommendations, Recommended, Via

Names = Mapping[Thing, str | None]
"""The names that were found."""


class NamedVia(msgspec.Struct):
    """A known item, and how many of the walks came through it."""

    id: int
    name: str | None
    visits: int


class NamedItem(msgspec.Struct, omit_defaults=True):
    """An item that the user does not know, with its name. `score`: visits by walks; in a fallback, plays by all."""

    id: int
    name: str | None
    score: int
    via: list[NamedVia] | None = None


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
    warnings: list[str]


def things(kind: str, found: Recommendations) -> list[Thing]:
    """What has a name in `found`: (kind, id)."""
    vias = (via.id for item in found.items for via in item.via or ())
    return list(dict.fromkeys((kind, one) for one in (*(item.id for item in found.items), *vias)))


def named(kind: str, found: Recommendations, names: Names, warnings: list[str]) -> NamedRecommendations:
    """`found` with the names found."""
    items = named_items(kind, found, names)
    return NamedRecommendations(found.user_id, items, found.walks, found.partial, found.fallback, warnings)


def named_items(kind: str, found: Recommendations, names: Names) -> list[NamedItem]:
    """The items of `found` with their names."""

    def via(one: Via) -> NamedVia:
        return NamedVia(one.id, names.get((kind, one.id)), one.visits)

    def item(one: Recommended) -> NamedItem:
        vias = None if one.via is None else [via(some) for some in one.via]
        return NamedItem(one.id, names.get((kind, one.id)), one.score, vias)

    return [item(one) for one in found.items]
