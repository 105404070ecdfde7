"""`streamstate verify`: every stored key of a service, its dead letters and derived topics, against a recount."""

import typer
from rich.progress import Progress

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.services import Deployment, Services, configured, deployments
from streamstate.verify.check import Check, Report

SHOWN = 20
"""The most differences of a service that are printed for people."""


def verify(services: Services = None, *, as_json: AsJson = False) -> None:
    """Count the topics again, and compare every key of every service with that, while the streams run.

    It needs the topics from offset 0. The exit status is 1 when something differs.
    """
    reports: list[Report] = []
    for deployment in deployments(configured(), services, "recount"):
        with output.progress() as bars:
            reports.append(_checked(deployment, bars))
        if not as_json:
            output.say(_text(reports[-1]))
    if as_json:
        output.document(reports)
    if any(report.differences for report in reports):
        raise typer.Exit(Exit.REFUSED)


def _checked(deployment: Deployment, bars: Progress) -> Report:
    recounted = deployment.recounted
    bar = bars.add_task(recounted.service, total=None)

    def progress(done: int, total: int) -> None:
        bars.update(bar, completed=done, total=total)

    return Check(recounted, deployment.settings, progress).run()


def _text(report: Report) -> str:
    return "\n".join([str(report), *(f"  {difference}" for difference in report.differences[:SHOWN])])
