"""Settings of the recommender."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from streamstate.settings import PREFIX


class WindowSettings(BaseSettings):
    """The stream and the API alike: give both the same."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    window: int = Field(
        1_000_000,
        ge=1_000,
        le=10_000_000,
        description="newest records of each partition of listening-events that recommendations are made from; "
        "the same for stream and API",
    )


class PoolSettings(BaseSettings):
    """The API."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    walkers: int = Field(0, ge=0, le=64, description="threads that walk; 0 for one for each core that there is")
    walks_waiting: int = Field(
        32, ge=0, description="most requests that wait for one of these threads; further ones get a 503 at once"
    )
