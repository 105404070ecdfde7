"""The plan of `streamstate restore` for a service, and its refusals."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
from rich.console import RenderableType

from streamstate import bootstrap
from streamstate.backup.loaded import SavedPartitions
from streamstate.cli import output
from streamstate.cli.report import refusals
from streamstate.cli.services import Deployment
from streamstate.cli.status import observe
from streamstate.errors import Declined, IncompleteCommit, Misconfigured
from streamstate.processing.fold_identity import require_same_folds
from streamstate.processing.topic_identity import require_same_topics
from streamstate.processing.truncation import require_ends
from streamstate.settings import StreamSettings, load
from streamstate.state.store import Origin, Snapshot


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
    """For people."""
    yield f"{'would be restored' if answer.dry_run else 'to be restored'} ({answer.service}):"
    rows = [
        (p.partition, _offsets(p.positions), "-" if p.replaces is None else _offsets(p.replaces), f"{p.goes_back:,}")
        for p in answer.partitions
    ]
    yield output.table(("partition", "saved at", "stands at", "goes back by"), rows)
    if answer.kept:
        yield f"not in the backup, stays as it is: partition {', '.join(map(str, answer.kept))}"
    for warning in answer.warnings:
        yield f"the streams will refuse the restored state: {warning}"


def _offsets(offsets: Mapping[str, int]) -> str:
    return ", ".join(f"{topic} {offset}" for topic, offset in offsets.items()) or "-"
