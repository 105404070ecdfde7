"""`streamstate verify`: every stored key of a service, its dead letters and derived topics, against a replay."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.progress import Progress

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.report import Seen, refusals, undecided
from streamstate.cli.services import Deployment, Services
from streamstate.cli.status import chosen
from streamstate.errors import IncompleteCommit, StreamStateError
from streamstate.state.redis_reads import tag
from streamstate.state.store import whole
from streamstate.verify.check import Check, Report

Halves = Mapping[int, tuple[IncompleteCommit, int]]
"""The partitions with a partly applied commit: its error, and the number of the commit."""

SHOWN = 20
"""The most differences of a service printed for people."""

MayBeEmpty = Annotated[bool, typer.Option("--may-be-empty", help="Accept a service without stored keys.")]


Mend = Annotated[bool, typer.Option("--mend", help="Accept half a commit in a partition that equals the replay.")]


def verify(
    services: Services = None, *, may_be_empty: MayBeEmpty = False, mend: Mend = False, as_json: AsJson = False
) -> None:
    """Replay the topics, and compare every key, dead letter and derived record, while streams run.

    Finds lost, doubled, torn and foreign state. Not a wrong fold: the replay folds as the stream does.

    Needs the topics from offset 0. Exit status 1 also without stored keys.
    """
    reports: list[Report] = []
    for deployment, seen in chosen(services):
        with output.progress() as bars:
            halves = _halves(deployment, seen) if mend else {}
            known = [error.fact for error, _ in halves.values()]
            reports.append(_report(deployment, seen, bars, known, may_be_empty=may_be_empty))
            reports[-1].faults += _mended(deployment, reports[-1], halves)
        if not as_json:
            output.say(_text(reports[-1]))
    if as_json:
        output.document(reports)
    if not all(report.equal for report in reports):
        raise typer.Exit(Exit.REFUSED)


def _halves(of: Deployment, seen: Seen) -> Halves:
    _, found = whole(of.store, (each for each in seen.partitions if each not in seen.snapshots))
    marked = {partition: (error, of.store.half_commit(partition)) for partition, error in found.items()}
    return {partition: (error, number) for partition, (error, number) in marked.items() if number is not None}


def _mended(of: Deployment, report: Report, halves: Halves) -> list[str]:
    """Mark each of `halves` that equals the recount as complete; returns the reasons for the others."""
    if report.faults:
        return []
    places = [difference.place for difference in report.differences]
    equal = {each for each in halves if not any(place.startswith(tag(of.app.name, each)) for place in places)}
    left = [each for each, (_, number) in halves.items() if each not in equal or not of.store.mend(each, number)]
    return [of.commands.complete(str(halves[each][0])) for each in left]


def _report(of: Deployment, seen: Seen, bars: Progress, known: Sequence[str], *, may_be_empty: bool) -> Report:
    """The faults of a state as a whole, apart from `known` faults, or else the differences of its keys."""
    compacted = [finding.text for finding in undecided(seen, of.streams) if finding.effect == "build"]
    found = map(of.commands.complete, dict.fromkeys([*seen.faults, *refusals(of.app, seen, of.streams), *compacted]))
    if faults := [fault for fault in found if not any(each in fault for each in known)]:
        return Report(of.app.name, faults=faults)
    try:
        report = _checked(of, bars)
    except StreamStateError as error:
        return Report(of.app.name, faults=[str(error)])
    if not (report.partitions or may_be_empty):
        report.faults = [
            f"nothing is stored of {of.app.name}; correct STREAMSTATE_NAME or STREAMSTATE_REDIS, or say --may-be-empty"
        ]
    return report


def _checked(of: Deployment, bars: Progress) -> Report:
    bar = bars.add_task(of.app.name, total=None)

    def progress(done: int, total: int) -> None:
        bars.update(bar, completed=done, total=total)

    return Check(of.app, of.settings, progress).run()


def _text(report: Report) -> str:
    return "\n".join([str(report), *(f"  {difference}" for difference in report.differences[:SHOWN])])
