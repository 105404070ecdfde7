"""`make history`: prints the table, and exits with 1 unless all is reached."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit.bench.data import USERS, Data
from devkit.bench.lab import servers
from devkit.history import answers, building
from devkit.history.lab import HistoryLab, widen
from devkit.measured import Row, run
from services.metrics.model import APP

PARTS: tuple[Callable[[HistoryLab], Iterator[Row]], ...] = (building.measure, answers.measure)
"""In their order: a part may use the state that the part before leaves."""

PARTITIONS = 32
"""Of the plays, as many as docs/scale.md reckons with."""


class HistorySettings(BaseSettings):
    """The run."""

    events: int = Field(2_000_000, ge=10_000, description="plays")
    users: int = Field(USERS, ge=1, description="listeners")
    kills: int = Field(5, ge=0, description="kills -9 of a build")


def measure(settings: HistorySettings, home: Path) -> list[Row]:
    """The rows of the table."""
    with servers(home / "cluster", services=[APP.name]) as cluster:
        widen(cluster.kafka, PARTITIONS)
        data = Data.make(settings.events, settings.users)
        data.send(cluster.kafka.bootstrap)
        lab = HistoryLab(cluster, data, home / "archive", settings.kills)
        return [row for part in PARTS for row in part(lab)]


if __name__ == "__main__":
    sys.exit(run(HistorySettings, measure))
