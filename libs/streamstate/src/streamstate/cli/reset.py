"""`streamstate reset`: a state deleted to be built anew, or totals corrected."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from typing import Annotated

import msgspec
import typer
from rich.console import RenderableType

from streamstate import bootstrap
from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, agree, offsets
from streamstate.cli.report import refusals
from streamstate.cli.services import Deployment, Service, deployment, gateway
from streamstate.cli.status import observe
from streamstate.cli.users.partitions import SYSTEM
from streamstate.errors import Commands, Declined
from streamstate.kafka.totals import Publisher, corrections, last_published, reads, summed
from streamstate.releases.command_lock import CommandLock
from streamstate.settings import StreamSettings, UserSettings, load
from streamstate.state.deletion import Holding, StateDeleter
from streamstate_client import GatewayError


class PartitionReset(msgspec.Struct):
    """The reset of a partition: its number of keys and its offsets; `begins` are the offsets of the next build."""

    partition: int
    keys: int
    positions: dict[str, int]
    begins: dict[str, int]


class Reset(msgspec.Struct):
    """A planned or finished reset. `truncated` are topics whose first records the state needs and Kafka has deleted.

    `findings` are wrong settings of topics.
    """

    service: str
    partitions: list[PartitionReset]
    truncated: list[str]
    dry_run: bool
    findings: list[str]


class Correction(msgspec.Struct):
    """A published total, and the state's total; None for a missing total."""

    topic: str
    field: str
    published: int | None
    total: int | None


def reset(
    service: Service,
    *,
    partition: Annotated[int | None, typer.Option(min=0, help="Default: all.")] = None,
    totals: Annotated[bool, typer.Option("--totals", help="Keep the state, and correct its published totals.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Also a state in use by a gateway.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete the state of a service; its streams rebuild the state from the topics.

    Reads of a partition are refused until the end of its build.
    """
    if totals and partition is not None:
        msg = "--totals are of all partitions"
        raise typer.BadParameter(msg)
    of = deployment(service)
    # Before the first look at the state: another command may not change what the operator agrees to.
    with nullcontext() if dry_run else of.locked("reset") as lock:
        if totals:
            _correct_totals(of, lock, yes=yes, as_json=as_json)
            return
        deletion = bootstrap.deletion(of.settings, of.app.name)
        there = {p: held for p, held in deletion.holdings().items() if partition in (None, p)}
        answer = _plan(of, there, dry_run=dry_run)
        if there and lock:
            _require_unread(of, there, live=live)
            agree(_overview(answer, of.commands), "Delete it?", yes=yes)
            # A promotion meanwhile takes no lock.
            _require_unread(of, there, live=live)
            lock.require()
            delete(deletion, there)
    output.show(answer, *_overview(answer, of.commands), as_json=as_json)


def _plan(of: Deployment, there: Mapping[int, Holding], *, dry_run: bool) -> Reset:
    counts = {topic: of.topics.partitions(topic) for topic in of.app.topics}
    begins = of.history.begins((topic, p) for topic, count in counts.items() for p in there if p < count)
    partitions = [
        PartitionReset(p, held.keys, dict(held.positions), {t: begin for (t, at), begin in begins.items() if at == p})
        for p, held in there.items()
    ]
    truncated = {topic for (topic, _), begin in begins.items() if begin > 0 and topic in of.app.requiring_beginning}
    findings = [finding.text for finding in of.findings()]
    return Reset(of.app.name, partitions, sorted(truncated), dry_run, findings)


def _require_unread(of: Deployment, there: Collection[int], *, live: bool) -> None:
    """Raise `Declined` where a gateway answers from the partitions `there`, or does not say whether it does.

    live: whether the operator accepts that.
    """
    if live:
        return
    seen = observe(of)
    states = {partition: seen.snapshots[partition] for partition in there if partition in seen.snapshots}
    owners = {partition: state.owner for partition, state in states.items() if state.ready(of.app.topics)}
    if not any(owners.values()) or any(refusals(of.app, seen, load(StreamSettings))):
        return
    asked = load(UserSettings).gateway
    try:
        answering = [owner for of in gateway().get(SYSTEM)["services"] if of["live"] for owner in of["owners"]]
    except GatewayError as error:
        why = f"{error}; set STREAMSTATE_GATEWAY to the gateway that may answer from the state"
    else:
        read = [of["partition"] for of in answering if of["address"] and of["address"] == owners.get(of["partition"])]
        if not read:
            return
        why = f"the gateway {asked} answers from {len(read)} partitions of the state"
    ways_out = "build a state beside it under another STREAMSTATE_NAME, or say --live"
    msg = f"the state of {of.app.name} may be live: {why}; {ways_out}"
    raise Declined(msg)


def delete(deletion: StateDeleter, there: Mapping[int, Holding]) -> None:
    """Delete the partitions `there`, with a bar of their keys."""
    with output.bar("deleting keys", sum(held.keys for held in there.values())) as advance:
        deletion.run(there, advance)


def _overview(answer: Reset, commands: Commands) -> Iterator[RenderableType]:
    if not answer.partitions:
        yield f"nothing is stored of {answer.service}"
        return
    yield f"{'would be deleted' if answer.dry_run else 'to be deleted'} ({answer.service}):"
    columns = "partition", "keys", "stands at", "is built again from"
    rows = [(p.partition, f"{p.keys:,}", offsets(p.positions), offsets(p.begins)) for p in answer.partitions]
    yield output.table(columns, rows)
    for topic in answer.truncated:
        yield commands.complete(
            f"Kafka has deleted the first records of {topic}: the streams will refuse to build without them, until "
            f"`streamstate allow SERVICE {topic} --reason TEXT`"
        )
    yield from map(commands.complete, answer.findings)


def _correct_totals(of: Deployment, lock: CommandLock | None, *, yes: bool, as_json: bool) -> None:
    """Publish the totals of the state where published totals differ, unless it is a dry run, which has no lock.

    Raises `Declined` during a build.
    """
    app = of.app
    if not app.totals:
        msg = f"{app.name} publishes no totals"
        raise Declined(msg)
    width = of.topics.widest(app.topics)
    with of.commands:
        snapshots = of.store.read(dict.fromkeys(range(width), reads(app.totals)))
    if building := [p for p, snapshot in snapshots.items() if not snapshot.ready(app.topics)]:
        msg = f"partition {building[0]} of {app.name} is being built; its totals would be too low, so wait for its end"
        raise Declined(msg)
    published = last_published(app.totals, of.topics)
    changes = corrections(published, summed(app.totals, snapshots.values()))
    answer = [Correction(*field, published.get(field), total) for field, total in changes.items()]
    rows = [(each.topic, each.field, *(_total(n) for n in (each.published, each.total))) for each in answer]
    tables = [output.table(("topic", "field", "published", "by the state"), rows)] if rows else ["no total differs"]
    if answer and lock:
        agree(tables, "Publish the totals of the state?", yes=yes)
        lock.require()
        Publisher(app, of.store, of.topics).correct(width)
    output.show(answer, *tables, as_json=as_json)


def _total(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
