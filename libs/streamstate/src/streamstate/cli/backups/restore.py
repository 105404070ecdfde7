"""`streamstate restore`: saved states, copied into a Redis while streams and APIs run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import redis
import typer
from rich.console import RenderableType

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, offsets
from streamstate.cli.report import refusals
from streamstate.cli.services import Deployment, Services, by_record, configured, deployments, stored
from streamstate.cli.status import observe
from streamstate.erasure.stream import Erasure
from streamstate.errors import Declined, IncompleteCommit, Misconfigured
from streamstate.history.backup.loaded import SavedPartitions, loaded
from streamstate.history.backup.manifest import files_of
from streamstate.history.backup.restorer import Restorer
from streamstate.processing.fitness import require_ends, require_same_folds, require_same_topics
from streamstate.releases.deployments import Deployments, Recorded
from streamstate.settings import CommandSettings, StreamSettings, load
from streamstate.state.deletion import StateDeleter
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.redis_reads import live_key
from streamstate.state.store import Origin, Snapshot

ANSWER_S = 60.0
"""Redis' time for one call: a value may have megabytes."""


class PartitionRestore(msgspec.Struct):
    """A partition: the saved next offsets, and the present ones, None without a readable state."""

    partition: int
    positions: dict[str, int]
    replaces: dict[str, int] | None

    @property
    def goes_back(self) -> int:
        """How many offsets the present state is ahead of the saved one."""
        return sum(max(0, at - self.positions.get(topic, 0)) for topic, at in (self.replaces or {}).items())


class Restore(msgspec.Struct):
    """A planned or finished restore.

    kept: partitions absent from the backup. warnings: reasons for streams to refuse the restored state.
    """

    service: str
    partitions: list[PartitionRestore]
    kept: list[int]
    warnings: list[str]
    dry_run: bool


@dataclass(frozen=True)
class Restoration:
    """A service, its saved partitions, the saved record of its releases, its present topics, and the plan."""

    of: Deployment
    saved: SavedPartitions
    record: bytes | None
    origins: Mapping[str, Origin]
    answer: Restore

    def require_deletions(self) -> None:
        """Raise `Misconfigured` where the topic of deletions lacks deletions of the saved state."""
        for store, snapshots in self._stores():
            self._erasure(store).read(snapshots.values())

    def run(self, taken: datetime | None) -> None:
        """Restore. Raises as `Restorer`."""
        settings, name = self.of.settings, self.of.app.name
        with connect(settings.redis, max(ANSWER_S, settings.redis_timeout_s), settings.redis_login) as client:
            restorer = Restorer(client, name, self.saved, taken)
            restorer.require_readable()
            if self.record:
                client.set(live_key(self.of.app.release_of), self.record, nx=True)
            held = [StateDeleter(source, name).holdings() for source in dict.fromkeys(self.saved.values())]
            keys = sum(each.keys for of in held for p, each in of.items() if p in self.saved)
            with output.bar(f"restoring {name}", keys) as advance:
                restorer.run(self._erase, advance)
            if self.of.stored:
                # Streams that run have stored it, perhaps anew.
                Deployments(client).store(name, Recorded(self.of.service, dict(self.of.own)))

    def _erase(self) -> None:
        """Apply deletions of users since the backup to the saved partitions."""
        for store, snapshots in self._stores():
            claims = {p: store.claim(p, each.owner, {}) for p, each in snapshots.items() if each.owner}
            self._erasure(store).apply(claims, self.origins)

    def _stores(self) -> Iterator[tuple[RedisStore, Mapping[int, Snapshot]]]:
        """The store over each file, with the partitions saved there."""
        for client in dict.fromkeys(self.saved.values()):
            store = bootstrap.store_over(client, self.of.app.name)
            held = [partition for partition, source in self.saved.items() if source is client]
            yield store, store.read(dict.fromkeys(held, ()))

    def _erasure(self, store: RedisStore) -> Erasure:
        return Erasure(self.of.app, store, bootstrap.deletions(self.of.settings, self.of.topics))


def restore(
    backup: Annotated[Path, typer.Argument(help="Folder of a backup, RDB file, or folder of RDB files.")],
    services: Services = None,
    *,
    partition: Annotated[int | None, typer.Option(min=0, help="Default: all.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Replace the states of services by a backup. Streams go on at the saved offsets.

    Reads are refused until the end. A scratch `redis-server` needs as much memory as Redis.
    """
    if partition is not None and len(services or ()) != 1:
        msg = "--partition is of one service: name it"
        raise typer.BadParameter(msg)
    settings = configured()
    files, taken = files_of(backup)
    with loaded(files) as states, ExitStack() as stack:
        to_restore = _deployments(settings, services, states)
        by_service = {} if dry_run else {of.app.release_of: of for of in to_restore}
        locks = {name: stack.enter_context(of.locked("restore")) for name, of in by_service.items()}
        plans = _plans(to_restore, states, partition, named=bool(services), dry_run=dry_run)
        if not dry_run:
            if any(part.replaces is not None for each in plans for part in each.answer.partitions):
                tables = [line for each in plans for line in overview(each.answer)]
                output.agree(tables, "Replace the present state?", yes=yes)
            for each in plans:
                locks[each.of.app.release_of].require()
                each.run(taken)
    lines = [line for each in plans for line in overview(each.answer)]
    lines += [each.of.commands.complete(_AFTER) for each in plans if not dry_run]
    output.show([each.answer for each in plans], *lines, as_json=as_json)


_AFTER = "restored; next, see `streamstate status SERVICE`, and check with `streamstate verify SERVICE`"


def _plans(
    to_restore: Sequence[Deployment],
    states: Mapping[str, SavedPartitions],
    partition: int | None,
    *,
    named: bool,
    dry_run: bool,
) -> list[Restoration]:
    """named: whether the operator named the services, each of which must then be in the backup."""
    plans = []
    for of in to_restore:
        saved = {p: client for p, client in states.get(of.app.name, {}).items() if partition in (None, p)}
        if saved:
            answer, origins = plan(of, saved, dry_run=dry_run)
            plans.append(Restoration(of, saved, _record(of, states), origins, answer))
            plans[-1].require_deletions()
        elif named:
            part = "" if partition is None else f"partition {partition} of "
            msg = f"the backup has no state of {part}{of.app.name}; it has {', '.join(states) or 'no state'}"
            raise Declined(msg)
    if not plans:
        msg = f"the backup has no state of these services; it has {', '.join(states) or 'no state'}"
        raise Declined(msg)
    return plans


def _deployments(
    settings: CommandSettings, services: Sequence[str] | None, states: Mapping[str, SavedPartitions]
) -> list[Deployment]:
    """`services`, or all of the backup: as Redis has them, else as saved, else by the environment.

    Raises `Declined` for a saved state that is none of these.
    """
    if settings.name:
        return deployments(settings, services)
    names = services or [*states]
    found = _saved(settings, names, states) | stored(settings, names)
    if services:
        return [found.get(name) or deployments(settings, [name])[0] for name in services]
    others = [of for of in deployments(settings) if of.app.name not in found]
    if unknown := states.keys() - found.keys() - {of.app.name for of in others}:
        known = " ".join(sorted(states.keys() - unknown))
        msg = (
            f"the backup has {', '.join(sorted(unknown))}, whose service is unknown to the backup and to Redis: start "
            f"its stream first, or name what to restore{known and f': {known}'}"
        )
        raise Declined(msg)
    return [*found.values(), *others]


def _clients(states: Mapping[str, SavedPartitions]) -> Iterable[redis.Redis]:
    return dict.fromkeys(client for partitions in states.values() for client in partitions.values())


def _record(of: Deployment, states: Mapping[str, SavedPartitions]) -> bytes | None:
    """The record of the releases of the service in the backup, None without one."""
    texts: Iterable[Any] = (client.get(live_key(of.app.release_of)) for client in _clients(states))
    return next(filter(None, texts), None)


def _saved(
    settings: CommandSettings, names: Sequence[str], states: Mapping[str, SavedPartitions]
) -> dict[str, Deployment]:
    """The deployments of these names in the backup."""
    read = ((name, Deployments(client).read(name)) for name in names for client in _clients(states))
    found = {name: by_record(settings, name, recorded) for name, recorded in read if recorded}
    return {name: of for name, of in found.items() if of}


def plan(of: Deployment, saved: SavedPartitions, *, dry_run: bool) -> tuple[Restore, Mapping[str, Origin]]:
    """The restore of `saved`, and the present topics. Raises `Declined` for a backup that fits no present stream.

    Raises `Misconfigured` where Redis would lose the state.
    """
    snapshots = _snapshots(of, saved)
    seen = observe(of)
    saved_only = replace(seen, snapshots=snapshots)
    ends = {place: end for place, end in seen.stable.items() if place[1] in snapshots}
    try:
        require_same_topics([snapshot.origins for snapshot in snapshots.values()], seen.origins)
        require_same_folds(of.app, of.app.topics, snapshots.values())
        require_ends(snapshots, ends)
    except Misconfigured as error:
        msg = of.commands.complete(f"the saved state of {of.app.name} cannot be restored: {error}")
        raise Declined(msg) from error
    of.store.require_fit(saved)
    present = {p: dict(each.positions) for p, each in seen.snapshots.items() if each.positions}
    partitions = [PartitionRestore(p, dict(each.positions), present.get(p)) for p, each in snapshots.items()]
    kept = [p for p in seen.partitions if p not in saved]
    warnings = [of.commands.complete(each) for each in refusals(of.app, saved_only, load(StreamSettings))]
    return Restore(of.app.name, partitions, kept, warnings, dry_run), seen.origins


def _snapshots(of: Deployment, saved: SavedPartitions) -> dict[int, Snapshot]:
    snapshots: dict[int, Snapshot] = {}
    for partition, client in saved.items():
        try:
            snapshots |= bootstrap.store_over(client, of.app.name).read({partition: []})
        except IncompleteCommit as error:
            msg = (
                f"partition {partition} of {of.app.name} is saved with half a commit; restore the others by --partition"
            )
            raise Declined(msg) from error
    return snapshots


def overview(answer: Restore) -> Iterator[RenderableType]:
    yield f"{'would be restored' if answer.dry_run else 'to be restored'} ({answer.service}):"
    rows = [
        (
            p.partition,
            offsets(p.positions),
            "-" if p.replaces is None else offsets(p.replaces),
            f"{p.goes_back:,}",
        )
        for p in answer.partitions
    ]
    yield output.table(("partition", "saved at", "stands at", "goes back by"), rows)
    if answer.kept:
        yield f"not in the backup, stays as it is: partition {', '.join(map(str, answer.kept))}"
    for warning in answer.warnings:
        yield f"the streams will refuse the restored state: {warning}"
