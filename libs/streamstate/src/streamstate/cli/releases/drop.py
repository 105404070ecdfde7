"""`streamstate drop`: a release that does not answer is deleted."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import KafkaException

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, agree
from streamstate.cli.releases.beside import Name, look, recorded
from streamstate.cli.reset import delete
from streamstate.cli.services import Deployment, Service
from streamstate.errors import Declined
from streamstate.releases import file
from streamstate.releases.record import Releases, dropped, handed_over, next_release
from streamstate.state.deletion import StateDeleter
from streamstate.state.store import TopicPartition

ENDING_S = 60.0
"""Seconds in which the reader of the file in RELEASES must end the streams of a release."""

PAID_S = 60.0
"""Seconds in which a release must publish its last outputs."""

IDLE_S = 1.0
"""Seconds without a record in a partition, after which a turn may end there before its cut."""

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

    Waits for its last outputs. Refuses the live release, and running streams, except the demo's.
    """
    of, record = recorded(service)
    name = release or next_release(record)
    dropped(record, name)
    dropping, side = Dropping(of, name), look(of, name)
    keys = {p: held.keys for p, held in dropping.deleter.holdings().items()}
    answer = Dropped(of.app.release_of, name, keys, side.of.app.group, dry_run)
    verb = "would be deleted" if dry_run else "is deleted"
    text = f"{name} {verb}: {sum(keys.values()):,} keys, the consumer group {answer.group}"
    if not dry_run:
        agree([f"to be deleted: {name}, {sum(keys.values()):,} keys"], "Delete it?", yes=yes)
        dropping.run(record)
    elif owed := record.owes(name, side.positions):
        text += f"; first it must publish {sum(owed.values()):,} more offsets"
    output.show(answer, text, as_json=as_json)


@dataclass(frozen=True)
class Dropping:
    """The steps of the deletion of the release `name`, each of which may be repeated."""

    of: Deployment
    name: str

    @property
    def deleter(self) -> StateDeleter:
        return bootstrap.deletion(self.of.settings, self.name)

    def run(self, record: Releases) -> None:
        record = self.settled(record)
        self._stop()
        delete(self.deleter, self.deleter.holdings())
        self._delete_group()
        bootstrap.deployments(self.of.settings).delete(self.name)
        self.of.pointer.replace(record, dropped(record, self.name))

    def settled(self, record: Releases) -> Releases:
        """The record by which the release owes no more outputs.

        Its turn ends in partitions without new records, and elsewhere its streams reach the cut. Raises `Declined`.
        """
        deadline = time.monotonic() + PAID_S
        while owed := record.owes(self.name, (side := look(self.of, self.name)).positions):
            time.sleep(IDLE_S)
            ends = self.of.topics.high_watermarks(owed)
            idle = {place: end for place, end in ends.items() if end == side.positions[place]}
            if time.monotonic() > deadline or not (idle or side.members):
                msg = (
                    f"{self.name} must publish {sum(owed.values()):,} more offsets before the turn of "
                    f"{record.publisher}: let its streams run until it owes nothing, then drop it"
                )
                raise Declined(msg)
            if idle:
                record = self.handed_over(record, idle)
        return record

    def handed_over(self, record: Releases, idle: Mapping[TopicPartition, int]) -> Releases:
        """The stored record after the turn ends at the ends of the `idle` partitions.

        The next release may have folded a record that came meanwhile before it knew of its turn, so the release keeps
        the turn there: the record may be published twice, and is not lost.
        """
        after = handed_over(record, idle)
        self.of.pointer.replace(record, after)
        ends = self.of.topics.high_watermarks(idle)
        still = {place: end for place, end in idle.items() if ends[place] == end}
        if still == idle:
            return after
        kept = msgspec.structs.replace(handed_over(record, still), number=after.number + 1)
        self.of.pointer.replace(after, kept)
        return kept

    def _stop(self) -> None:
        """Let the reader of the file in RELEASES end the streams. Raises `Declined` for running streams."""
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

    def _delete_group(self) -> None:
        group = self.of.release(self.name).app.group
        try:
            self.of.topics.delete_group(group)
        except KafkaException as error:
            msg = f"the keys of {self.name} are deleted, but not its consumer group {group} ({error}): run it again"
            raise Declined(msg) from error
