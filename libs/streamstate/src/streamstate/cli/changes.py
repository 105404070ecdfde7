"""`streamstate skip`, `allow` and `throttle`: an operator's decisions about a state."""

from typing import Annotated

import msgspec
import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun
from streamstate.cli.services import Deployment, Service, deployment
from streamstate.errors import Declined
from streamstate.state.store import Allowance, committed

MOST_CHARACTERS = 500
"""Limit of a reason, which is stored beside the state and in dead letters."""

Topic = Annotated[str, typer.Argument(help="Name in Kafka.")]
Reason = Annotated[str, typer.Option(help="Stored with the decision.")]


class Skipped(msgspec.Struct):
    """A record that no commit will fold; the state is at `position`."""

    service: str
    topic: str
    partition: int
    offset: int
    position: int
    reason: str
    dry_run: bool


class Allowed(msgspec.Struct):
    """By partition, the offset before which the state may lack the records of a topic."""

    service: str
    topic: str
    before: dict[int, int]
    reason: str
    dry_run: bool


class Throttled(msgspec.Struct):
    """The `rate` of a service's builds, in records a second over all `partitions`; None: as configured."""

    service: str
    rate: int | None
    partitions: int
    dry_run: bool


def skip(
    service: Service,
    topic: Topic,
    partition: Annotated[int, typer.Argument(min=0)],
    offset: Annotated[int, typer.Argument(min=0)],
    *,
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a dead letter of a record that stops a stream.

    A committed record is refused.
    """
    of = deployment(service)
    _require_reason(reason)
    _require_topic(of, topic)
    if partition >= of.topics.partitions(topic):
        raise typer.BadParameter(f"{topic} has {of.topics.partitions(topic)} partitions, from 0")
    place = (topic, partition)
    begin, end = of.history.begins([place])[place], of.topics.ends([place])[place]
    if not begin <= offset < end:
        msg = f"{topic}:{partition} has no record at {offset}: its offsets are from {begin} to before {end}"
        raise Declined(msg)
    with of.commands:
        position = of.store.read({partition: []})[partition].positions.get(topic, 0)
        if position > offset:
            raise committed(topic, partition, offset, position)
        if not dry_run:
            with of.locked("skip"):
                of.store.skip(partition, topic, offset, reason)
    answer = Skipped(of.app.name, topic, partition, offset, position, reason, dry_run)
    verb = "would become" if dry_run else "becomes"
    text = f"{topic}:{partition}:{offset} {verb} a dead letter; {answer.service} stands at {position} there"
    output.show(answer, text, as_json=as_json)


def allow(service: Service, topic: Topic, *, reason: Reason, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Accept a state without the records of a topic that Kafka has deleted, or deletes by compaction.

    Until a reset of the state; not for later deletions of first records.
    """
    of = deployment(service)
    _require_reason(reason)
    _require_topic(of, topic)
    begins = of.history.begins((topic, partition) for partition in range(of.topics.partitions(topic)))
    compacted = bool(of.topics.compacted([topic]))
    before = {partition: begin for (_, partition), begin in begins.items() if begin > 0 or compacted}
    if not before:
        msg = f"Kafka has all records of {topic} from offset 0, and does not compact it: there is nothing to allow"
        raise Declined(msg)
    if not dry_run:
        with of.locked("allow"):
            for partition, begin in before.items():
                of.store.allow(partition, topic, Allowance(begin, reason))
    answer = Allowed(of.app.name, topic, before, reason, dry_run)
    verb = "would be" if dry_run else "is"
    text = f"the state of {answer.service} {verb} allowed to lack the records of {topic} had before these offsets"
    text += ", and compacted ones:" if compacted else ":"
    output.show(answer, text, output.table(("partition", "offset"), before.items()), as_json=as_json)


def throttle(
    service: Service,
    rate: Annotated[
        int | None, typer.Argument(min=0, help="Records a second; 0 pauses. Without: as configured.")
    ] = None,
    *,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Limit the builds of a service, running builds too, so that its Redis serves others."""
    of = deployment(service)
    partitions = max(of.topics.partitions(topic) for topic in of.app.topics)
    if not dry_run:
        with of.locked("throttle"):
            for partition in range(partitions):
                of.store.throttle(partition, None if rate is None else rate / partitions)
    answer = Throttled(of.app.name, rate, partitions, dry_run)
    verb = "would fold" if dry_run else "fold"
    text = (
        f"builds of {answer.service} {verb} {'records as configured' if rate is None else f'{rate} records a second'}"
    )
    output.show(answer, text, as_json=as_json)


def _require_topic(of: Deployment, topic: str) -> None:
    if topic not in of.app.topics:
        raise typer.BadParameter(f"{of.app.name} does not read {topic}; it reads {', '.join(of.app.topics)}")


def _require_reason(reason: str) -> None:
    if not 0 < len(reason.strip()) <= MOST_CHARACTERS:
        raise typer.BadParameter(f"--reason needs 1 to {MOST_CHARACTERS} characters")
