"""`streamstate unload`: the answers for all keys of views, as Parquet files, from a snapshot of Redis."""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.answers.replay import named_view
from streamstate.cli.output import AsJson
from streamstate.cli.releases.live import followed, live_name
from streamstate.cli.services import Deployment, Service, deployment, imported
from streamstate.erasure.deletions import erased
from streamstate.errors import Declined
from streamstate.history.backup import manifest, snapshots
from streamstate.history.backup.loaded import SavedPartitions, loaded

Views = Annotated[list[str], typer.Argument(metavar="VIEW")]
To = Annotated[str, typer.Option(metavar="FOLDER", help="Folder, or URI such as s3://bucket/path.")]
Saved = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="BACKUP", help="Backup, or RDB file, in place of a new snapshot."),
]
IfLive = Annotated[bool, typer.Option("--if-live", help="Nothing where STREAMSTATE_NAME is not live.")]


def unload(
    service: Service,
    views: Views,
    *,
    to: To,
    saved: Saved = None,
    if_live: IfLive = False,
    as_json: AsJson = False,
) -> None:
    """Write the answers of views for all keys to Parquet files, one for each partition.

    A scratch `redis-server` needs as much memory as Redis. The files are in FOLDER/VIEW/taken=TIME, complete when
    `_manifest.json` exists. Users deleted by now are left out.
    """
    named = deployment(service)
    if if_live and named.settings.name and (live := live_name(named)) != named.app.name:
        output.show([], f"{named.app.name} is not live: the answers are those of {live}", as_json=as_json)
        return
    of = followed(named)
    asked = [named_view(of, view) for view in views]
    unloading = imported("streamstate.history.answers.unloading")
    made = []
    with _files(of, saved) as (files, taken), loaded(files) as states:
        state = states.get(of.app.name, {})
        if not state:
            msg = f"the snapshot has no state of {of.app.name}; check STREAMSTATE_NAME and STREAMSTATE_REDIS"
            raise Declined(msg)
        left_out = _erased(of, state)
        for view in asked:
            made.append(unloading.Unloading(of.app, view, state, taken, left_out).write(to))
    lines = (f"{each.rows:,} rows are in {each.folder}" for each in made)
    output.show(made, *lines, as_json=as_json)


@contextmanager
def _files(of: Deployment, saved: Path | None) -> Iterator[tuple[list[Path], datetime]]:
    """The snapshots, and when they were taken."""
    if saved:
        files, taken = manifest.files_of(saved)
        yield files, taken or datetime.fromtimestamp(min(file.stat().st_mtime for file in files), UTC)
        return
    settings, taken = of.settings, manifest.now()
    with TemporaryDirectory(prefix="streamstate-unload-") as folder:
        with bootstrap.client(settings) as client:
            tls = settings.redis.startswith("rediss")
            files = snapshots.take(client, settings.redis_login, Path(folder), tls=tls)
        yield files, taken


def _erased(of: Deployment, state: SavedPartitions) -> Mapping[int, Set[bytes]]:
    """By partition, the users whose deletion the saved state has not applied."""
    left_out: dict[int, Set[bytes]] = {}
    topic = bootstrap.deletions(of.settings, of.topics)
    if topic and of.app.user_folds:
        deletions = topic.present()
        for partition, client in state.items():
            snapshot = bootstrap.store_over(client, of.app.name).read({partition: []})[partition]
            ids = {name: origin.id for name, origin in snapshot.origins.items()}
            asked = deletions.asked(of.app.name, partition, ids)
            waiting = [each for each in asked if each.request >= (snapshot.deletions or 0)]
            left_out[partition] = {*chain.from_iterable(erased(waiting, partition, of.app.rekeyed).values())}
    return left_out
