"""Settings of the recommender."""

from pydantic import Field

from streamstate.settings import Settings


class WindowSettings(Settings):
    """Recommendations: stream and API alike."""

    window: int = Field(
        1_000_000,
        ge=1_000,
        le=100_000_000,
        description="how many of the newest records of each partition of listening-events are in the graph; "
        "the same for stream and API",
    )


class PoolSettings(Settings):
    """Recommendations: the API."""

    walkers: int = Field(
        0, ge=0, le=64, description="threads that walk the graph; 0 for as many as the container has cores"
    )
    walks_waiting: int = Field(
        32, ge=0, description="most requests that wait for one of these threads; further ones get a 503 at once"
    )
