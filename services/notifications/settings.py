"""Settings of notifications."""

from pydantic import Field

from streamstate.settings import Settings

DAY_MS = 24 * 3_600_000


class GraceSettings(Settings):
    """Notifications: the stream."""

    grace_ms: int = Field(0, ge=0, le=DAY_MS, description="time after a window's end for late records")
