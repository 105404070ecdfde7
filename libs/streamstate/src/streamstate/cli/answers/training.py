"""`streamstate replay --rows`: a training set."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import typer

from streamstate.cli import output
from streamstate.cli.services import Deployment, environment
from streamstate.history.answers.logs import Logs
from streamstate.history.answers.rows import by_partition, read, require_within
from streamstate.history.answers.training import TrainingTask, train, variables
from streamstate.history.archive.uris import require_empty
from streamstate.settings import StreamSettings, load
from streamstate.spark.process import batch_session
from streamstate.view import View


class TrainingSet(msgspec.Struct):
    """A written training set: its folder, rows and files; `lacking` rows lack a record behind a later timestamp."""

    folder: str
    rows: int
    files: int
    lacking: int


def write(of: Deployment, view: View[Any], given: Mapping[str, str], rows: Path, folder: str) -> TrainingSet:
    """Write the answers of `view` as of each of `rows` to files in `folder`; `given` are the request's parameters."""
    if view.over_all_partitions or view.key is None:
        msg = f"{view.path} is about all partitions; a training set needs a view about a key"
        raise typer.BadParameter(msg)
    asked = read(rows)
    require_empty(folder)
    logs = Logs(of.app, view, of.settings)
    if span := logs.span():
        require_within(rows, asked, span)
    parts = [*by_partition(asked, view.key, logs.counts[view.topic or ""], view.partitioner)]
    for warning in logs.warnings([partition for partition, _ in parts]):
        typer.echo(f"streamstate: {warning}", err=True)
    work = task(of, view, given, folder)
    with output.progress() as bars, batch_session(load(StreamSettings)) as spark:
        bar = bars.add_task("partitions", total=len(parts))
        written = train(spark, work, parts, lambda done: bars.update(bar, completed=done))
    if written.lacking:
        typer.echo(
            f"streamstate: {written.lacking:,} rows lack records with earlier timestamps, which come behind a record "
            "with a later one in their partition",
            err=True,
        )
    return TrainingSet(folder, written.rows, len(parts), written.lacking)


def task(of: Deployment, view: View[Any], given: Mapping[str, str], folder: str) -> TrainingTask:
    """The work of the partitions, in the environment of the deployment."""
    with environment(of.own):
        return TrainingTask(of.package, view.name, of.settings, given, folder, variables(), sys.path)
