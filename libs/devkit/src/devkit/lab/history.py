"""`make history`: an archive, and the states, answers and files made from it."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit.lab.archived import HistoryLab, widen
from devkit.lab.measures import answers, building
from devkit.lab.plays import USERS, Data
from devkit.lab.servers import servers
from devkit.lab.targets import Report, run
from services.metrics.model import APP

PARTITIONS = 32
"""Of the plays, as many as docs/scale.md reckons with."""


class HistorySettings(BaseSettings):
    """The run."""

    events: int = Field(2_000_000, ge=10_000, description="plays")
    users: int = Field(USERS, ge=1, description="listeners")
    kills: int = Field(5, ge=0, description="kills -9 of a build")


def measure(settings: HistorySettings, home: Path, report: Report) -> None:
    """Measure builds, and then answers over the state that they leave."""
    with servers(home / "cluster", services=[APP.name]) as cluster:
        widen(cluster.kafka, PARTITIONS)
        data = Data.make(settings.events, settings.users)
        data.send(cluster.kafka.bootstrap)
        lab = HistoryLab(cluster, data, home / "archive", settings.kills)
        report.targets += building.measure(lab)
        report.targets += answers.measure(lab)


if __name__ == "__main__":
    raise SystemExit(run(HistorySettings, measure))
