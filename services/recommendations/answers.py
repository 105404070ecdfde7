"""Parameters and answers of the recommender, apart from the walks."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from services.events import KINDS
from services.recommendations.control.rules import CATEGORY, ID
from services.recommendations.starts import MOST as MOST_STARTS
from services.recommendations.starts import PATTERN as STARTS
from services.recommendations.starts import parse_id
from services.recommendations.walks.salsa import WALKS
from streamstate.keys import LONG, LONG_MAX
from streamstate.view import READ, Cost, NamedIds, Part
from streamstate.web.http.parameters import bad_parameter
from streamstate.web.partition_map import ViewEntry

MOST_STEPS = 1_000_000
"""The most steps of all walks of a request: some 40 ms of a core."""

VIAS = 10
WHYS = 3

COST = 5
"""Of walks with the parameters' defaults, in reads of a key."""

MOST_EXCLUDED = 200
EXCLUDED = rf"^{ID}(?:,{ID}){{0,{MOST_EXCLUDED - 1}}}$"

MOST_CATEGORIES = 20
CATEGORIES = rf"^{CATEGORY}(?:,{CATEGORY}){{0,{MOST_CATEGORIES - 1}}}$"

ALL_KINDS = "/v1/users/<key>/recommendations"
"""Where all kinds are answered at once, each with the parameters' defaults."""


def member(kind: str) -> str:
    """The member of the answer with the recommendations of `kind`."""
    return f"{kind.removesuffix('s')}Recommendations"


def view(kind: str) -> str:
    """The name of the view of the kind."""
    return f"recommended-{kind}"


def path(kind: str) -> str:
    """The path of the view."""
    return f"{ALL_KINDS}/{kind}"


def similar_view(kind: str) -> str:
    """The name of the view of items similar to an item of the kind."""
    return f"similar-{kind}"


def similar_path(kind: str) -> str:
    """The path of that view."""
    return f"/v1/{kind}/<key>/similar"


def entries(topic: str) -> list[ViewEntry]:
    """The views. Any instance answers; the keys are the keys of `topic`."""
    entry = partial(ViewEntry, topic=topic, key=LONG.name, anywhere=True, scope=READ)
    names = NamedIds({f"{member(kind)}.{place}": kind for kind in KINDS for place in ("id", "why.id")})
    part = Part(members=tuple(map(member, KINDS)), remarks=("fallbacks",), parameters=("explain",))
    cost = Cost(COST, {"walks": Parameters().walks, "walkLength": Parameters().walk_length})
    of_kind = partial(entry, cost=cost)
    return [
        *(of_kind(view(kind), path(kind), names=NamedIds({"items.id": kind, "items.via.id": kind})) for kind in KINDS),
        *(of_kind(similar_view(kind), similar_path(kind), names=NamedIds({"items.id": kind})) for kind in KINDS),
        entry("recommendations", ALL_KINDS, names=names, part=part, cost=Cost(len(KINDS) * COST)),
    ]


class Options(msgspec.Struct, rename="camel", frozen=True):
    """The parameters of walks and of their list, with their limits."""

    limit: Annotated[int, Meta(ge=1, le=100, description="most items")] = 10
    walks: Annotated[
        int, Meta(ge=1, le=100_000, description=f"random walks; walks x walkLength is at most {MOST_STEPS:,}")
    ] = WALKS
    walk_length: Annotated[int, Meta(ge=1, le=1_000, description="steps of a walk; every other one is at an item")] = (
        100
    )
    reset_probability: Annotated[
        float, Meta(ge=0, le=1, description="how likely a walk goes back to its start, at each of its users")
    ] = 0.1
    recency: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            description="how much newer plays are preferred: the play at the fraction x of the plays of a user or an "
            "item (0 the oldest, 1 the newest) has the weight x to the power recency",
        ),
    ] = 0
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=LONG_MAX)] | None,
        Meta(
            description="the same seed on the same graph gives the same list; by default a list stays until the end "
            "of a time slot (STREAMSTATE_STABLE_S)"
        ),
    ] = None
    early_stop: Annotated[
        bool,
        Meta(
            description="end when the list is settled: of 10,000 walks a third to two thirds are spared, of 1,000 "
            "hardly any; the list is as good, and with seed as repeatable; not with several starts"
        ),
    ] = False
    starts: Annotated[
        Annotated[str, Meta(pattern=STARTS)] | None,
        Meta(
            description=f"where walks start instead, at most {MOST_STARTS}, with weights: artists:1:0.7,artists:5:0.3; "
            "user is the user of the path",
        ),
    ] = None
    exclude: Annotated[
        Annotated[str, Meta(pattern=EXCLUDED)] | None,
        Meta(description=f"ids of items to leave out, at most {MOST_EXCLUDED}: 1,2"),
    ] = None
    categories: Annotated[
        Annotated[str, Meta(pattern=CATEGORIES)] | None,
        Meta(description=f"only items of these categories, at most {MOST_CATEGORIES}"),
    ] = None
    exclude_categories: Annotated[
        Annotated[str, Meta(pattern=CATEGORIES)] | None,
        Meta(description=f"no items of these categories, at most {MOST_CATEGORIES}"),
    ] = None

    def check(self) -> None:
        """Raise a 400 `Problem` for more steps than the limit of a request."""
        if self.walks * self.walk_length > MOST_STEPS:
            raise bad_parameter(f"walks x walkLength must be at most {MOST_STEPS}; lower one of them")

    @property
    def excluded(self) -> list[int]:
        """The ids of `exclude`. Raises a 400 `Problem` for an id beyond its limit."""
        return [parse_id("exclude", text) for text in self.exclude.split(",")] if self.exclude else []

    @property
    def only_categories(self) -> list[str]:
        """The names in `categories`."""
        return self.categories.split(",") if self.categories else []

    @property
    def without_categories(self) -> list[str]:
        """The names in `exclude_categories`."""
        return self.exclude_categories.split(",") if self.exclude_categories else []


class Parameters(Options, rename="camel", frozen=True):
    """The parameters of a recommendation to a user."""

    explain: Annotated[
        bool,
        Meta(description=f"tell the (at most {VIAS}) known items that led to each item; not with starts"),
    ] = False

    def check(self) -> None:
        """As of `Options`; also for an explanation of walks that do not start at the user."""
        super().check()
        if self.explain and self.starts:
            msg = "explain tells items on the way of walks from the user; leave starts out"
            raise bad_parameter(msg)


class AllParameters(msgspec.Struct, frozen=True):
    """The parameters of the recommendations of all kinds at once."""

    explain: Annotated[bool, Meta(description=f"tell the (at most {WHYS}) known items that led to each item most")] = (
        False
    )


class Via(msgspec.Struct):
    """A known item, and the number of visits on walks through the item."""

    id: int
    visits: int


class RecommendedItem(msgspec.Struct):
    """An item without plays of the user in the window of the graph.

    `score` is the number of visits by the walks, or of listeners in a fallback. With several starts, it is the square
    of the sum of the square roots of the visits from each start, so that items related to several starts come first.

    `via` are the known items on the way, most visits first; `why` are the first items of `via`.
    """

    id: int
    score: int
    via: list[Via] | UnsetType = UNSET
    why: list[Via] | UnsetType = UNSET


class Recommendations(msgspec.Struct, rename="camel"):
    """Items for a user, best first, ties by id.

    `walks` is the number of finished walks. `partial`: the time ended before the last walk. `fallback` is `popular`
    when walks found nothing new, because the user has no or few plays: the items then have the most listeners.
    """

    user_id: int
    items: list[RecommendedItem]
    walks: int
    partial: bool
    fallback: str | None


class SimilarItem(msgspec.Struct):
    """An item, and its `score` as of a recommendation."""

    id: int
    score: int


class Similar(msgspec.Struct):
    """Items that listeners of an item play, best first, ties by id; none for an item without plays in the graph.

    `walks` is the number of finished walks. `partial`: the time ended before the last walk.
    """

    id: int
    items: list[SimilarItem]
    walks: int
    partial: bool


class AllRecommendations(msgspec.Struct, rename="camel"):
    """Items of all kinds for a user, best first, ties by id.

    `fallbacks` names the lists of popular items, whose walks found nothing new.
    `warnings` names each list whose time ended before the last walk.
    """

    user_id: int
    artist_recommendations: list[RecommendedItem]
    album_recommendations: list[RecommendedItem]
    track_recommendations: list[RecommendedItem]
    fallbacks: list[str]
    warnings: list[str]

    @classmethod
    def from_kinds(cls, user: int, by_kind: Mapping[str, Recommendations]) -> "AllRecommendations":
        """From the recommendations of each kind."""
        artists, albums, tracks = ([_short(item) for item in by_kind[kind].items] for kind in KINDS)
        fallbacks = [member(kind) for kind in KINDS if by_kind[kind].fallback]
        warnings = [f"{member(kind)}: partial, time ran out" for kind in KINDS if by_kind[kind].partial]
        return cls(user, artists, albums, tracks, fallbacks, warnings)


def _short(item: RecommendedItem) -> RecommendedItem:
    """The item's form in the answer of all kinds."""
    return item if item.via is UNSET else RecommendedItem(item.id, item.score, why=item.via[:WHYS])


_WHY = [Via(43, 17)]
RECOMMENDATIONS = Recommendations(42, [RecommendedItem(42, 31, via=_WHY)], walks=WALKS, partial=False, fallback=None)
SIMILAR = Similar(42, [SimilarItem(43, 31)], walks=WALKS, partial=False)
ALL_RECOMMENDATIONS = AllRecommendations(
    user_id=42,
    artist_recommendations=[RecommendedItem(42, 31, why=_WHY)],
    album_recommendations=[RecommendedItem(42, 25)],
    track_recommendations=[RecommendedItem(42, 5)],
    fallbacks=["trackRecommendations"],
    warnings=[],
)
"""Answers, for the document."""
