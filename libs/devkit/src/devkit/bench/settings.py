"""Settings of the bench."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit.names import known, names

PARTS = ("ingest", "reads", "access", "freshness", "overload", "recommendations", "watchers", "profiles")


class BenchSettings(BaseSettings):
    """The bench."""

    only: Annotated[str, known("part", PARTS)] = Field(
        "", description=f"parts to run, separated by commas: {', '.join(PARTS)}; empty: all, and the report is written"
    )
    events: int = Field(2_000_000, ge=100_000, description="listening events that the state is made of")
    peers: Path | None = Field(
        None, description="the folder of the peers' scripts: Kafka Streams is measured in the same run"
    )
    graphjet: Path | None = Field(
        None, description="the source of GraphJet, with PEERS: its recommendations are measured in the same run"
    )

    def runs(self, *parts: str) -> bool:
        """Whether the run has at least one of `parts`."""
        return not self.only or not set(parts).isdisjoint(names(self.only))
