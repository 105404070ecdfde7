"""`streamstate releases` and `streamstate wait`: the releases of a service, and the build of a staged release."""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.releases.beside import (
    Name,
    ReleaseReport,
    Side,
    breaking,
    look,
    present,
    recorded,
    refused_more,
    report,
)
from streamstate.cli.services import Service
from streamstate.errors import Declined
from streamstate.releases.record import first, next_release, require
from streamstate_client import GatewayError

PAUSE_S = 1.0
STARTING_S = 120
"""Seconds in which the stream of a staged release must join its consumer group."""

Timeout = Annotated[float, typer.Option(min=0, help="Seconds; 0: for ever.")]


def releases(service: Service, *, as_json: AsJson = False) -> None:
    """Show the releases of a service: the live release, the publisher, and progress.

    `owes`: offsets that a release will still publish. Its streams must run until then.
    """
    of, record = present(service)
    known = record or first(of.app.release_of)
    answer = [report(known, look(of, name)) for name in known.releases]
    output.show(answer, *_overview(answer), as_json=as_json)


def wait(service: Service, release: Name = "", *, timeout: Timeout = 0, as_json: AsJson = False) -> None:
    """Wait until a staged release is ready: all partitions built, and at the ends of the topics.

    Exit status 1: it fails, or the time is over.
    """
    of, record = recorded(service)
    name = release or next_release(record)
    require(record, name)
    began, compared = time.monotonic(), False
    with output.progress() as bars:
        bar = bars.add_task(name, total=None)
        while not _done(side := look(of, name), time.monotonic() - began):
            total = sum(side.ends.values())
            compared = compared or _compare(name)
            bars.update(bar, completed=total - side.lag, total=total)
            if timeout and time.monotonic() - began > timeout:
                msg = (
                    f"{name} is {side.word} after {timeout:g} s, {side.progress:.0%} built, {side.lag:,} records behind"
                )
                raise Declined(msg)
            time.sleep(PAUSE_S)
    answer = report(record, side)
    took = (
        f"{name} is {answer.state} after {time.monotonic() - began:.1f} s; next: `streamstate diff {service} {name}`, "
    )
    text = f"{took}`streamstate promote {service} {name}`"
    output.show(answer, text, *refused_more(side, look(of, record.live)), as_json=as_json)


def _compare(name: str) -> bool:
    """Print how answers of the release break clients; false while the gateway does not reach the release."""
    try:
        lines = breaking(name)
    except GatewayError:
        return False
    for line in lines:
        typer.echo(f"{name} breaks clients: {line}", err=True)
    return True


def _done(side: Side, waited_s: float) -> bool:
    """Whether the release is ready. Raises `Declined` for a failing release, except during its start."""
    late = waited_s > (0 if side.members else STARTING_S)
    if side.word == "failing" and late:
        msg = f"{side.of.app.name} is failing: {'; '.join(side.faults)}"
        raise Declined(msg)
    if side.word == "starting" and late:
        group = side.of.app.group
        msg = f"no stream has joined the consumer group {group} for {STARTING_S} s; start it, or drop the release"
        raise Declined(msg)
    return side.word == "ready"


def _overview(answer: Sequence[ReleaseReport]) -> Iterator[RenderableType]:
    columns = ("release", "live", "publishes", "state", "built", "lag", "owes")
    yield output.table(columns, map(_row, answer))
    yield from (f"{of.release}: {fault}" for of in answer for fault in of.faults)
    yield from (
        f"{of.release}: no stream has run yet; start it, unless a supervisor does"
        for of in answer
        if of.state == "starting"
    )


def _row(of: ReleaseReport) -> tuple[object, ...]:
    live, publishes = (("yes" if holds else "-") for holds in (of.live, of.publishes))
    return of.release, live, publishes, of.state, f"{of.progress:.0%}", f"{of.lag:,}", f"{sum(of.owes.values()):,}"
