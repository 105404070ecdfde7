"""Settings of the bench."""

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit.names import known, names

PARTS = ("ingest", "reads", "freshness", "overload", "recommendations", "watchers", "profile")


class BenchSettings(BaseSettings):
    """The bench."""

    only: Annotated[str, known("part", PARTS)] = Field(
        "", description=f"parts to run, separated by commas: {', '.join(PARTS)}; empty: all, and the report is written"
    )
    events: int = Field(2_000_000, ge=100_000, description="listening events that the state is made of")

    def runs(self, *parts: str) -> bool:
        """Whether the run has at least one of `parts`."""
        return not self.only or not set(parts).isdisjoint(names(self.only))
