"""Settings of notifications."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from streamstate.settings import PREFIX

DAY_MS = 24 * 3_600_000


class GraceSettings(BaseSettings):
    """The stream."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    grace_ms: int = Field(
        0, ge=0, le=DAY_MS, description="milliseconds for which a window of notifications takes records after its end"
    )
