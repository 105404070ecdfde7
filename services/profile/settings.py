"""Settings of a profile."""

from pathlib import Path

from pydantic import Field

from streamstate.settings import Settings


class ProfileSettings(Settings):
    """A profile: stream and API alike."""

    profile: Path = Field(
        Path(__file__).with_name("habits.yaml"),
        description="the YAML file that declares the profile",
    )
