"""What can be asked of the recommender, and what it answers: without the machinery that finds it."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from services.events import KINDS
from streamstate.gateway import READ, Cost, NamedIds, Part
from streamstate.keys import LONG, LONG_MAX
from streamstate.web.http.parameters import bad_parameter
from streamstate.web.partition_map import ViewEntry

MOST_STEPS = 1_000_000
"""Of all walks of a request together: at most some 30 ms of one core."""

VIAS = 10
WHYS = 3

COST = 5
"""Of walks with the parameters' defaults, in reads of a key."""

ALL_KINDS = "/v1/users/<key>/recommendations"
"""Where all kinds are answered at once, each with the parameters' defaults."""


def member(kind: str) -> str:
    """The member of such an answer that holds the recommendations of `kind`."""
    return f"{kind.removesuffix('s')}Recommendations"


def view(kind: str) -> str:
    """The name of the view that recommends this kind of things."""
    return f"recommended-{kind}"


def path(kind: str) -> str:
    """Where it is asked."""
    return f"{ALL_KINDS}/{kind}"


def entries(topic: str) -> list[ViewEntry]:
    """The views. Any instance answers; the keys are those of `topic`."""
    entry = partial(ViewEntry, topic=topic, key=LONG.name, anywhere=True, scope=READ)
    names = NamedIds({f"{member(kind)}.{place}": kind for kind in KINDS for place in ("id", "why.id")})
    part = Part(members=tuple(map(member, KINDS)), remarks=("fallbacks",), parameters=("explain",))
    cost = Cost(COST, {"walks": Parameters().walks, "walkLength": Parameters().walk_length})
    of_kind = partial(entry, cost=cost)
    return [
        *(of_kind(view(kind), path(kind), names=NamedIds({"items.id": kind, "items.via.id": kind})) for kind in KINDS),
        entry("recommendations", ALL_KINDS, names=names, part=part, cost=Cost(len(KINDS) * COST)),
    ]


class Parameters(msgspec.Struct, rename="camel", frozen=True):
    """The parameters of a recommendation, with their limits."""

    limit: Annotated[int, Meta(ge=1, le=100, description="most items")] = 10
    walks: Annotated[
        int, Meta(ge=1, le=100_000, description=f"random walks; walks x walkLength is at most {MOST_STEPS:,}")
    ] = 1_000
    walk_length: Annotated[int, Meta(ge=1, le=1_000, description="steps of a walk; every other one is at an item")] = (
        100
    )
    reset_probability: Annotated[
        float, Meta(ge=0, le=1, description="how likely a walk goes back to the user, at each of its users")
    ] = 0.1
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=LONG_MAX)] | None,
        Meta(description="the same seed on the same graph gives the same list; without one each list is a new draw"),
    ] = None
    early_stop: Annotated[
        bool,
        Meta(
            description="end when the list is settled: of 10,000 walks up to a quarter is spared, of 1,000 hardly any; "
            "the list is as good, and with seed as repeatable"
        ),
    ] = False
    explain: Annotated[bool, Meta(description=f"tell the (at most {VIAS}) known items that led to each item")] = False

    def check(self) -> None:
        """Raise a 400 `Problem` for more steps in all than one request may take."""
        if self.walks * self.walk_length > MOST_STEPS:
            raise bad_parameter(f"walks x walkLength must be at most {MOST_STEPS}; lower one of them")


class AllParameters(msgspec.Struct, frozen=True):
    """The parameters of the recommendations of all kinds at once."""

    explain: Annotated[bool, Meta(description=f"tell the (at most {WHYS}) known items that led to each item most")] = (
        False
    )


class Via(msgspec.Struct):
    """A known item, and how many of the walks came through it."""

    id: int
    visits: int


class RecommendedItem(msgspec.Struct):
    """An item that the user did not play within the window of the graph.

    `score` is the number of visits by the walks; of plays in a fallback.

    `via` are the known items that led to it, the one with most visits first; `why` are the first of them.
    """

    id: int
    score: int
    via: list[Via] | UnsetType = UNSET
    why: list[Via] | UnsetType = UNSET


class Recommendations(msgspec.Struct, rename="camel"):
    """Items for a user, best first, ties by id.

    `walks` were done. `partial` says that the time ended before all were. `fallback` is `popular` where walks
    found nothing new, since the user has no plays or too few: then the items are the most played ones.
    """

    user_id: int
    items: list[RecommendedItem]
    walks: int
    partial: bool
    fallback: str | None


class AllRecommendations(msgspec.Struct, rename="camel"):
    """Items of all kinds for a user, best first, ties by id.

    `fallbacks` names the lists that are only what is popular, since walks from this user found nothing new.
    `warnings` names each list whose time ended before all walks were done.
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
    """As it is among those of all kinds."""
    return item if item.via is UNSET else RecommendedItem(item.id, item.score, why=item.via[:WHYS])


_WHY = [Via(43, 17)]
RECOMMENDATIONS = Recommendations(42, [RecommendedItem(42, 31, via=_WHY)], walks=1_000, partial=False, fallback=None)
ALL_RECOMMENDATIONS = AllRecommendations(
    user_id=42,
    artist_recommendations=[RecommendedItem(42, 31, why=_WHY)],
    album_recommendations=[RecommendedItem(42, 25)],
    track_recommendations=[RecommendedItem(42, 5)],
    fallbacks=["trackRecommendations"],
    warnings=[],
)
"""Answers, for the document."""
