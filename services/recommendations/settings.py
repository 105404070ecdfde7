"""Settings of the recommender."""

from pydantic import Field

from streamstate.settings import Settings


class WindowSettings(Settings):
    """Recommendations: stream and API alike."""

    window: int = Field(
        1_000_000,
        ge=1_000,
        le=100_000_000,
        description="newest records of each partition of listening-events in the graph",
    )


class PoolSettings(Settings):
    """Recommendations: the API."""

    walkers: int = Field(0, ge=0, le=64, description="threads for walks; 0: the container's cores")
    walks_waiting: int = Field(32, ge=0, description="maximal requests waiting for a thread; beyond: 503")
