"""Settings of a profile."""

from pathlib import Path

from pydantic import Field

from streamstate.settings import Settings

HABITS = Path(__file__).with_name("habits.yaml")


class ProfileSettings(Settings):
    """A profile: stream and API alike."""

    profile: str = Field(
        str(HABITS),
        min_length=1,
        description="the profile's YAML file, or its text in braces",
    )
