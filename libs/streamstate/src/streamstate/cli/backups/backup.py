"""`streamstate backup`: a snapshot of every primary of Redis, and a manifest of the states in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import configured
from streamstate.history.backup import manifest, snapshots
from streamstate.history.backup.loaded import SavedPartitions, loaded
from streamstate.history.backup.manifest import Manifest, SavedService, SavedTopic
from streamstate.settings import CommandSettings
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import tag
from streamstate.state.store import whole


class Backup(Manifest):
    """The manifest of a new backup, and its folder."""

    folder: str


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder, in which each backup gets a folder.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Save all states in Redis: a snapshot (RDB) of each primary, and a list of the contents.

    Streams and reads go on. A scratch `redis-server` needs as much memory as Redis.
    """
    settings = configured()
    with bootstrap.client(settings) as client:
        answer = _backup(folder, settings, client)
        _mark(client, answer)
    output.show(answer, *_overview(answer), as_json=as_json)


def _backup(parent: Path, settings: CommandSettings, client: Client) -> Backup:
    taken = manifest.now()
    with manifest.new_folder(parent, taken) as (partial, final):
        tls = settings.redis.startswith("rediss")
        files = snapshots.take(client, settings.redis_login, partial, tls=tls)
        with loaded(files) as states:
            version = next((str(of.info("server")["redis_version"]) for p in states.values() for of in p.values()), "")
            services = {app: _saved(app, partitions) for app, partitions in states.items()}
        size = sum(file.stat().st_size for file in files)
        names = [file.name for file in files]
        manifest.write(partial, Manifest(taken, settings.redis, version, names, size, services))
    return Backup(taken, settings.redis, version, names, size, services, str(final))


def _saved(app: str, partitions: SavedPartitions) -> SavedService:
    saved = SavedService({}, {}, [])
    for partition, client in partitions.items():
        snapshots, halves = whole(bootstrap.store_over(client, app), [partition])
        saved.incomplete += halves
        for snapshot in snapshots.values():
            saved.topics |= {topic: SavedTopic(*origin) for topic, origin in snapshot.origins.items()}
            for topic, offset in snapshot.positions.items():
                saved.positions.setdefault(topic, {})[partition] = offset
    return saved


def _mark(client: Client, made: Backup) -> None:
    """Store the time of the backup in each saved partition, for the metric."""
    for app, service in made.services.items():
        for partition in {p for offsets in service.positions.values() for p in offsets}:
            client.hset(tag(app, partition), "backup", str(round(made.taken.timestamp() * 1_000)))


def _overview(made: Backup) -> Iterator[RenderableType]:
    yield f"saved in {made.folder} ({made.bytes:,} bytes of {', '.join(made.files)}):"
    columns = "service", "topic", "id", "partitions", "offsets"
    yield output.table(columns, (row for name, service in made.services.items() for row in _rows(name, service)))
    for name, service in made.services.items():
        if service.incomplete:
            yield f"{name}: half a commit is in the partitions {service.incomplete}, which cannot be restored"
    yield f"to restore: `streamstate restore {made.folder} --dry-run`, then without --dry-run"


def _rows(name: str, service: SavedService) -> Iterator[tuple[object, ...]]:
    for topic, offsets in service.positions.items():
        of = service.topics.get(topic)
        yield name, topic, of.id if of else "-", len(offsets), f"{sum(offsets.values()):,}"
