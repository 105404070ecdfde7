"""`streamstate drop`: a release that does not answer is deleted."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import KafkaException

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, agree
from streamstate.cli.releases.beside import Name, Side, look, recorded
from streamstate.cli.services import Deployment, Service
from streamstate.errors import Declined
from streamstate.releases import file
from streamstate.releases.record import Releases, dropped, handed_over, next_release
from streamstate.state.deletion import Holding, StateDeleter

ENDING_S = 60.0
"""Seconds in which the supervisor of the file of releases must end the streams of a release."""

IDLE_S = 1.0
"""Seconds without a record, after which a turn may end before its cut."""

PAUSE_S = 0.5


class Dropped(msgspec.Struct):
    """A planned or finished deletion: the number of keys by partition, and the consumer group."""

    service: str
    release: str
    keys: dict[int, int]
    group: str
    dry_run: bool


def drop(
    service: Service, release: Name = "", *, yes: Yes = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Delete a release that does not answer: its keys and its consumer group. Nothing undoes it.

    Refuses the live release, a release that must still publish, and a release with running streams, except streams
    that the supervisor of STREAMSTATE_RELEASES ends. After an interruption, run the command again.
    """
    of, record = recorded(service)
    name = release or next_release(record)
    dropped(record, name)
    dropping = Dropping(of, name)
    side = look(of, name)
    dropping.settled(record, side)
    holdings = dropping.deleter.holdings()
    answer = Dropped(
        of.app.release_of, name, {p: held.keys for p, held in holdings.items()}, side.of.app.group, dry_run
    )
    verb = "would be deleted" if dry_run else "is deleted"
    text = f"{name} {verb}: {sum(answer.keys.values()):,} keys, the consumer group {answer.group}"
    if not dry_run:
        agree([f"to be deleted: {name}, {sum(answer.keys.values()):,} keys"], "Delete it?", yes=yes)
        dropping.run(record)
    output.show(answer, text, as_json=as_json)


@dataclass(frozen=True)
class Dropping:
    """The steps of the deletion of the release `name`, each of which may be repeated."""

    of: Deployment
    name: str

    @property
    def deleter(self) -> StateDeleter:
        return bootstrap.deletion(self.of.settings, self.name)

    def settled(self, record: Releases, side: Side) -> Releases:
        """The record after which the release owes no more outputs: `record` itself, or one that ends its turn here.

        A turn may end before its cut where the topics have no record behind the state. Raises `Declined`.
        """
        if not (owed := record.owes(self.name, side.positions)):
            return record
        if self._idle(side, owed):
            return handed_over(record, self.name, side.positions)
        left = sum(owed.values())
        msg = (
            f"{self.name} must publish {left:,} more offsets before the turn of {record.publisher}: let its streams "
            f"run until `streamstate releases {self.of.service}` shows that it owes nothing"
        )
        raise Declined(msg)

    def _idle(self, side: Side, owed: Collection[tuple[str, int]]) -> bool:
        """Whether no record came lately: one that comes as the turn ends would be published by none."""
        if any(side.ends[place] > side.positions[place] for place in owed):
            return False
        time.sleep(IDLE_S)
        ends = self.of.topics.high_watermarks(owed)
        return all(ends[place] <= side.ends[place] for place in owed)

    def require_idle(self, record: Releases, after: Releases, side: Side) -> None:
        """Give the outputs of records that came as the turn ended back to the release, and raise `Declined`.

        The next release may have folded such a record before it knew that its turn had begun.
        """
        owed = record.owes(self.name, side.positions)
        ends = self.of.topics.high_watermarks(owed)
        if all(ends[place] <= side.ends[place] for place in owed):
            return
        returned = handed_over(record, self.name, side.positions | ends)
        self.of.pointer.replace(after, msgspec.structs.replace(returned, number=after.number + 1))
        msg = f"records came as the turn of {self.name} ended: run its streams until it owes nothing, then drop it"
        raise Declined(msg)

    def run(self, record: Releases) -> None:
        self._stop()
        side = look(self.of, self.name)
        after = self.settled(record, side)
        if after != record:
            self.of.pointer.replace(record, after)
            self.require_idle(record, after, side)
        self._delete(self.deleter.holdings())
        self.of.pointer.replace(after, dropped(after, self.name))

    def _stop(self) -> None:
        """End the streams that the file of releases started; raises `Declined` when others run."""
        first, path = self.of.app.release_of, self.of.settings.releases
        if path and (self.name == first or self.name in file.read(path).get(first, {})):
            file.write(path, file.with_release(file.read(path), first, self.name, None))
            deadline = time.monotonic() + ENDING_S
            while self._members() and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
        if members := self._members():
            msg = (
                f"{', '.join(sorted(members))} run in the consumer group of {self.name}: stop them first, on "
                f"Kubernetes by `helm uninstall {self.name}`"
            )
            raise Declined(msg)

    def _members(self) -> Mapping[str, object]:
        return self.of.topics.members(self.of.release(self.name).app.group)

    def _delete(self, holdings: Mapping[int, Holding]) -> None:
        with output.progress() as bars:
            bar = bars.add_task("deleting keys", total=sum(held.keys for held in holdings.values()))
            self.deleter.run(holdings, lambda keys: bars.advance(bar, keys))
        group = self.of.release(self.name).app.group
        try:
            self.of.topics.delete_group(group)
        except KafkaException as error:
            msg = f"the keys of {self.name} are deleted, but not its consumer group {group} ({error}): run it again"
            raise Declined(msg) from error
