"""Settings of a profile."""

from pathlib import Path

from pydantic import Field

from streamstate.settings import Settings

HABITS = Path(__file__).with_name("habits.yaml")


class ProfileSettings(Settings):
    """A profile: stream and API alike."""

    profile: Path = Field(
        HABITS,
        description="the profile's YAML file",
    )
