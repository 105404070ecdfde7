"""Settings of the bench."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit.names import known, names

USUAL = ("ingest", "reads", "access", "freshness", "overload", "rest", "recommendations", "watchers")
ONLY_BY_NAME = ("backlog", "formats", "scale")
PARTS = USUAL + ONLY_BY_NAME


class BenchSettings(BaseSettings):
    """The bench."""

    only: Annotated[str, known("part", PARTS)] = Field(
        "",
        description=f"parts to run, separated by commas: {', '.join(PARTS)}; empty: all but {', '.join(ONLY_BY_NAME)}, "
        "and the report is written",
    )
    events: int = Field(2_000_000, ge=100_000, description="listening events that the state is made of")
    backlog: int = Field(
        6_000_000,
        ge=1_000_000,
        description="records of each backlog of merged topics, clicks and notifications, in several slices",
    )
    plays: int = Field(100_000_000, ge=100_000, description="plays in the graph of the part scale: 50 bytes each")
    volume: Path | None = Field(
        None, description="an empty folder for the files of a stream with a backlog, such as a tmpfs of 256 MiB"
    )
    peers: Path | None = Field(
        None, description="the folder of the peers' scripts: Kafka Streams is measured in the same run"
    )
    graphjet: Path | None = Field(
        None, description="the source of GraphJet, with PEERS: its recommendations are measured in the same run"
    )

    def runs(self, *parts: str) -> bool:
        """Whether one of `parts` is to be measured."""
        return not set(parts).isdisjoint(names(self.only) if self.only else USUAL)
