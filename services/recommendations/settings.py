"""Settings of the recommender."""

from pydantic import Field

from streamstate.settings import Settings

MOST_SHOWN = 1_000
"""The most shown items of a user."""


class WindowSettings(Settings):
    """Recommendations: stream and API alike."""

    window: int = Field(
        1_000_000,
        ge=1_000,
        le=100_000_000,
        description="newest records of each partition of listening-events in the graph",
    )
    recommendation_rules: bool = Field(default=False, description="whether the topic recommendation-rules is read")
    shown: int = Field(
        default=0,
        ge=0,
        le=MOST_SHOWN,
        description="newest shown items of a user that lists leave out; 0: the topic is not read",
    )


class PoolSettings(Settings):
    """Recommendations: the API."""

    walkers: int = Field(0, ge=0, le=64, description="threads for walks; 0: the container's cores")
    walks_waiting: int = Field(32, ge=0, description="requests waiting for a thread; beyond: 503")


class ListSettings(Settings):
    """Recommendations: the API."""

    stable_s: int = Field(
        300,
        ge=0,
        le=30 * 86_400,
        description="seconds for which a full list stays, whatever other users play; 0: each list is a new draw",
    )
    shown_age_s: int = Field(
        0, ge=0, le=10 * 366 * 86_400, description="seconds for which lists leave out a shown item; 0: for ever"
    )
