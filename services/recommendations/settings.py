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
