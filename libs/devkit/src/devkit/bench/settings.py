"""Settings of the bench."""

from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

PARTS = ("ingest", "reads", "freshness", "overload", "rest", "recommendations", "backlog")


class BenchSettings(BaseSettings):
    """The bench."""

    only: str = Field(
        "", description=f"parts to run, separated by commas: {', '.join(PARTS)}; empty: all, and the report is written"
    )
    events: int = Field(2_000_000, ge=100_000, description="listening events that the state is made of")
    backlog: int = Field(
        6_000_000,
        ge=100_000,
        description="records of each backlog of merged topics: clicks and notifications",
    )
    volume: Path | None = Field(
        None, description="an empty folder for the files of a stream with a backlog, such as a tmpfs of 256 MiB"
    )
    peers: Path | None = Field(
        None, description="the folder of the peers' scripts: Kafka Streams is measured in the same run"
    )
    graphjet: Path | None = Field(
        None, description="the source of GraphJet, with PEERS: its recommendations are measured in the same run"
    )

    @field_validator("only")
    @classmethod
    def _known(cls, only: str) -> str:
        if unknown := set(filter(None, only.split(","))) - set(PARTS):
            msg = f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}"
            raise ValueError(msg)
        return only

    def runs(self, *parts: str) -> bool:
        """Whether one of `parts` is to be measured."""
        return not self.only or not set(parts).isdisjoint(self.only.split(","))
