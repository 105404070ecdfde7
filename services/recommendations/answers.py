"""What can be asked of the recommender, and what it answers: without the machinery that finds it."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streamstate.keys import LONG_MAX
from streamstate.web.http.parameters import bad_parameter

MOST_STEPS = 1_000_000
"""Of all walks of a request together: at most some 30 ms of one core."""

VIAS = 10

ALL_KINDS = "/v1/users/<key>/recommendations"
"""Where the gateway asks for all kinds at once, each with the parameters' defaults: answered by kind."""


def view(kind: str) -> str:
    """The name of the view that recommends this kind of things."""
    return f"recommended-{kind}"


def path(kind: str) -> str:
    """Where it is asked."""
    return f"{ALL_KINDS}/{kind}"


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


class Via(msgspec.Struct):
    """A known item, and how many of the walks came through it."""

    id: int
    visits: int


class Recommended(msgspec.Struct):
    """An item that the user does not know. `score` is the number of visits by the walks; of plays in a fallback."""

    id: int
    score: int
    via: list[Via] | UnsetType = UNSET


class Recommendations(msgspec.Struct, rename="camel"):
    """Items for a user, best first, ties by id.

    `walks` were done. `partial` says that the time ended before all were. `fallback` is `popular` where walks
    found nothing new, since the user has no plays or too few: then the items are the most played ones.
    """

    user_id: int
    items: list[Recommended]
    walks: int
    partial: bool
    fallback: str | None
