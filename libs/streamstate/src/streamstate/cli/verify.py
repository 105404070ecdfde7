"""`streamstate verify`: every stored key of a service, its dead letters and derived topics, against a recount."""

from typing import Annotated

import typer
from rich.progress import Progress

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.report import Seen, refusals
from streamstate.cli.services import Deployment, Services
from streamstate.cli.status import chosen
from streamstate.errors import StreamStateError
from streamstate.settings import StreamSettings, load
from streamstate.verify.check import Check, Report

SHOWN = 20
"""The most differences of a service that are printed for people."""

MayBeEmpty = Annotated[bool, typer.Option("--may-be-empty", help="A service of which nothing is stored is no fault.")]


def verify(services: Services = None, *, may_be_empty: MayBeEmpty = False, as_json: AsJson = False) -> None:
    """Count the topics again, and compare every key of every service with that, while the streams run.

    It needs the topics from offset 0. Without names, services that neither run nor have a state are left out. The exit
    status is 1 when something differs, when nobody would answer from the state, and when nothing is stored.
    """
    reports: list[Report] = []
    for deployment, seen in chosen(services, "recount"):
        with output.progress() as bars:
            reports.append(_report(deployment, seen, bars, may_be_empty=may_be_empty))
        if not as_json:
            output.say(_text(reports[-1]))
    if as_json:
        output.document(reports)
    if not all(report.equal for report in reports):
        raise typer.Exit(Exit.REFUSED)


def _report(of: Deployment, seen: Seen, bars: Progress, *, may_be_empty: bool) -> Report:
    """What is wrong with a state as a whole, or else with its keys."""
    if faults := [*seen.faults, *refusals(of.app, seen, load(StreamSettings))]:
        return Report(of.app.name, faults=list(map(of.commands.complete, faults)))
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
    recounted = of.recounted
    bar = bars.add_task(recounted.service, total=None)

    def progress(done: int, total: int) -> None:
        bars.update(bar, completed=done, total=total)

    return Check(recounted, of.settings, progress).run()


def _text(report: Report) -> str:
    return "\n".join([str(report), *(f"  {difference}" for difference in report.differences[:SHOWN])])
