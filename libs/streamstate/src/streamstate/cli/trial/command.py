"""`streamstate try`: the answers of a profile from a file of events, without Kafka, Redis or Spark."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.services import imported
from streamstate.cli.trial import sample
from streamstate.cli.trial.members import chosen, seen
from streamstate.cli.trial.rows import PAUSE_S, Row, batches
from streamstate.cli.trial.trial import Trial
from streamstate.cli.users.answers import rendered
from streamstate.profile.file import read

_BUSIEST = 3

Profile = Annotated[Path | None, typer.Argument(metavar="FILE", help="YAML file; default: a sample, written here.")]
Events = Annotated[Path | None, typer.Argument(exists=True, dir_okay=False, help="JSON lines, .csv or .parquet.")]
Key = Annotated[str, typer.Option(help="Key to answer for; default: the keys with most events.")]
At = Annotated[str, typer.Option(metavar="TIME", help="ISO 8601 or milliseconds; default: of the last event.")]
Follow = Annotated[bool, typer.Option("--follow", help="Read on as the file grows, until Ctrl-C.")]
Listen = Annotated[int | None, typer.Option(metavar="PORT", help="Serve API and page at this port of 127.0.0.1.")]
Member = Annotated[str, typer.Option(metavar="MEMBER", help="Default: guessed.")]


class Tried(msgspec.Struct):
    """The answers by key; the numbers of rows and, by reason, the refused lines; the members that are key and time."""

    answers: dict[str, Any]
    rows: int
    refused: dict[str, list[int]]
    key: str
    time: str


def try_(
    file: Profile = None,
    events: Events = None,
    *,
    key: Key = "",
    at: At = "",
    follow: Follow = False,
    listen: Listen = None,
    key_field: Member = "",
    time_field: Member = "",
    as_json: AsJson = False,
) -> None:
    """Fold a file of events by a profile in memory, and print answers: no Kafka, Redis or Spark.

    Without FILE or EVENTS, a sample is written to the working directory.
    """
    own, plays = sample.written() if file is None or events is None else (file, events)
    file, events = file or own, events or plays
    declared = read(file)
    fields = {of.path: of for name, of in declared.types.items() if name in declared.fields}
    reading = batches(events, fields, growing=follow)
    first = next((batch for batch in reading if batch), [])
    members = chosen(declared, fields, seen(first), key_field, time_field)
    served = imported("streamstate.cli.trial.served") if listen is not None else None
    sockets = [served.listener(0), served.listener(listen)] if served else []
    owner = "{}:{}".format(*sockets[0].getsockname()) if served else "driver:1"
    trial, rows = Trial(declared, members, int(time.time() * 1_000), owner), chain([first], reading)

    def tried() -> Tried:
        answers = {each: trial.answer(each, at) for each in ([key] if key else trial.busiest(_BUSIEST))}
        return Tried(answers, trial.rows, trial.refused, members.key, members.time)

    if served:
        served.serve(trial, *sockets, rows)
    elif follow:
        with suppress(KeyboardInterrupt):
            _follow(trial, rows, lambda: Group(*_shown(tried())))
    else:
        for batch in rows:
            trial.feed(batch)
        answer = tried()
        output.show(answer, *_shown(answer), as_json=as_json)


def _follow(trial: Trial, rows: Iterable[Sequence[Row]], shown: Callable[[], RenderableType]) -> None:
    """Fold the rows as they come, and show the answers whenever all written rows are folded."""
    with output.live() as show:
        fed = 0
        for batch in rows:
            trial.feed(batch)
            if not batch:
                if trial.rows > fed:
                    show(shown())
                fed = trial.rows
                time.sleep(PAUSE_S)


def _shown(tried: Tried) -> Iterator[RenderableType]:
    number = sum(map(len, tried.refused.values()))
    key = f"key: {tried.key} (or --key-field), time: {tried.time or 'the present'} (or --time-field)"
    yield f"{tried.rows:,} events, {number:,} refused; {key}"
    for reason, lines in tried.refused.items():
        yield f"refused {len(lines):,}: {reason}; lines {', '.join(map(str, lines[:5]))}"
    for key, answer in tried.answers.items():
        yield f"\n{key}"
        yield rendered({name: value for name, value in answer.items() if name not in ("key", "windows")})
    yield msgspec.json.encode(next(iter(tried.answers.values()))).decode()
