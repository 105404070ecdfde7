"""Recommendations with names: which names they need, and where they go."""

import msgspec

from services.gateway.names import Names, Thing
from services.recommendations.answers import Recommendations, Recommended, Via


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


def things(kind: str, answer: Recommendations) -> list[Thing]:
    """What has a name in `answer`: (kind, id)."""
    vias = (via.id for item in answer.items for via in item.via or ())
    return list(dict.fromkeys((kind, number) for number in (*(item.id for item in answer.items), *vias)))


def named(kind: str, answer: Recommendations, names: Names, warnings: list[str]) -> NamedRecommendations:
    """`answer` with its names."""
    items = named_items(kind, answer, names)
    return NamedRecommendations(answer.user_id, items, answer.walks, answer.partial, answer.fallback, warnings)


def named_items(kind: str, answer: Recommendations, names: Names) -> list[NamedItem]:
    """The items of `answer` with their names."""

    def named_via(via: Via) -> NamedVia:
        return NamedVia(via.id, names.get((kind, via.id)), via.visits)

    def named_item(item: Recommended) -> NamedItem:
        vias = None if item.via is None else [named_via(via) for via in item.via]
        return NamedItem(item.id, names.get((kind, item.id)), item.score, vias)

    return [named_item(item) for item in answer.items]
