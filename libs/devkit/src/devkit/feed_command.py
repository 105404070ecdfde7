"""`streamstate feed`: listening events for any Kafka. The command is there where devkit is installed."""

import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from devkit.events.records import Event
from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import configured, imported
from streamstate.kafka.admin import TIMEOUT_S
from streamstate.kafka.producer import producer

_BATCHES_PER_S = 10
_MOST = 10_000
"""Events of a batch."""

Lfm = Annotated[Path | None, typer.Option(help="Folder of LFM-1b files.")]
SkipMalformed = Annotated[bool, typer.Option("--skip-malformed", help="Leave out malformed lines.")]
Events = Annotated[int | None, typer.Option(min=1, help="Maximum number of events.")]
Rate = Annotated[int, typer.Option(min=0, help="Maximum events per second; 0: no limit.")]
Users = Annotated[int, typer.Option(min=1, help="Number of invented users.")]
Seed = Annotated[int, typer.Option(help="Seed of the events.")]


class Fed(msgspec.Struct):
    """The sent names, events and events a second, and the skipped malformed lines."""

    names: int
    events: int
    events_per_s: float
    malformed: int


def feed(
    *,
    lfm: Lfm = None,
    skip_malformed: SkipMalformed = False,
    events: Events = None,
    rate: Rate = 200,
    users: Users = 1_000,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Send names and listening events to Kafka: from files, or invented until Ctrl-C. Needs `devkit`.

    A malformed line ends the command before anything is sent.
    """
    settings = configured()
    # Services are importable only once the command runs.
    of, sending = imported("devkit.events.lfm"), imported("devkit.events.feed")
    files = of.Files(lfm, skip_malformed) if lfm else None
    if files:
        files.check()
    out = producer(settings.kafka, settings.security)
    # Records alone would wait for minutes.
    out.list_topics(timeout=TIMEOUT_S)
    names, records = (files.names(), files.events()) if files else sending.invented(seed, users)
    fed, started = Fed(sending.send_names(out, names), 0, 0.0, 0), time.monotonic()
    with suppress(KeyboardInterrupt), output.progress() as bars:
        bar = bars.add_task("events", total=events)
        for batch in paced(itertools.islice(records, events), rate):
            fed.events += sending.send_events(out, batch)
            bars.update(bar, completed=fed.events)
    fed.events_per_s = fed.events / (time.monotonic() - started)
    fed.malformed = len(files.malformed) if files else 0
    text = f"fed {fed.names:,} names and {fed.events:,} events, {fed.events_per_s:,.0f} a second"
    if files and files.skipped:
        text += f"; {files.skipped}"
    output.show(fed, text, as_json=as_json)


def paced(events: Iterator[Event], rate: int) -> Iterator[list[Event]]:
    """The `events` in batches, at most `rate` a second on average; without a limit when `rate` is 0."""
    size = max(1, rate // _BATCHES_PER_S) if rate else _MOST
    started, count = time.monotonic(), 0
    while batch := list(itertools.islice(events, size)):
        yield batch
        count += len(batch)
        if rate:
            time.sleep(max(0.0, started + count / rate - time.monotonic()))
