"""`streamstate replay`: the API's answers as of a time or a position, and training sets."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import redis
import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson
from streamstate.cli.releases.live import as_stored
from streamstate.cli.services import Deployment, Service, deployment, imported
from streamstate.errors import Declined
from streamstate.history.answers.logs import Logs
from streamstate.history.answers.times import shown
from streamstate.replay.feed import Overtaken
from streamstate.state.store import EACH, TopicPartition, offsets_of, offsets_text
from streamstate.texts import milliseconds
from streamstate.view import Question, View, encoded, parameters

ViewName = Annotated[str, typer.Argument(metavar="VIEW")]
Keys = Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Keys, as in the URL of the view.")]
At = Annotated[str, typer.Option(metavar="TIME", help="ISO 8601 (without a zone: UTC), or milliseconds.")]
AtPosition = Annotated[
    str, typer.Option(metavar="TEXT", help="Header Position of an earlier answer, in place of a time.")
]
Query = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter of the view's request.")]
Rows = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Parquet or CSV file with the columns key and time.",
    ),
]
To = Annotated[str, typer.Option(metavar="FOLDER", help="Folder, or URI such as s3://bucket/path.")]


class PastAnswer(msgspec.Struct):
    """An answer, null for an unknown key, and the next offsets of its state."""

    key: str
    answer: msgspec.Raw
    position: str


def replay(
    service: Service,
    view: ViewName,
    keys: Keys = None,
    *,
    at: At = "",
    position: AtPosition = "",
    query: Query = None,
    rows: Rows = None,
    to: To = "",
    as_json: AsJson = False,
) -> None:
    """Print the API's answers as of an earlier time, a line for each key, null for an unknown key.

    Users deleted by now are unknown. With --rows, Spark at STREAMSTATE_MASTER writes a
    Parquet file for each partition into --to.
    """
    if bool(at) + bool(position) + (rows is not None) != 1 or (rows is None) != (not to):
        msg = "give one of --at, --position, and --rows with --to"
        raise typer.BadParameter(msg)
    of = _deployed(service)
    asked = named_view(of, view)
    given = {name: value for name, _, value in (each.partition("=") for each in query or ())}
    _require_known(asked, given)
    if rows:
        made = imported("streamstate.cli.answers.training").write(of, asked, given, rows, to)
        output.show(made, f"{made.rows:,} rows are in {made.files} files in {made.folder}", as_json=as_json)
        return
    moment = _moment(at) if at else None
    answers = _answers(of, asked, _questions(asked, keys or [], given, moment), moment, position)
    if as_json:
        output.document(answers)
    else:
        sys.stdout.writelines(f"{bytes(each.answer).decode()}\n" for each in answers)


def _deployed(service: str) -> Deployment:
    """The live release of the service; by the settings of the command alone where Redis cannot be read."""
    of = deployment(service)
    try:
        return as_stored(of)
    except (redis.ConnectionError, redis.TimeoutError) as error:
        typer.echo(f"streamstate: Redis cannot be read ({error}): the settings of the environment apply", err=True)
        return of


def named_view(of: Deployment, name: str) -> View[Any]:
    """The view of a service. Raises typer's error for an unknown name."""
    views = {view.name: view for view in of.app.views}
    if name not in views:
        msg = f"{of.service} has no view {name}; it has {', '.join(views) or 'none'}"
        raise typer.BadParameter(msg)
    return views[name]


def _moment(text: str) -> int:
    """A time in milliseconds since 1970. Raises typer's error for another text."""
    try:
        return milliseconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _require_known(view: View[Any], given: Mapping[str, str]) -> None:
    known = view.query.__struct_encode_fields__ if view.query else ()
    if unknown := [name for name in given if name not in known]:
        msg = f"{view.path} has no parameter {unknown[0]}; it has {', '.join(known) or 'none'}"
        raise typer.BadParameter(msg)


def _questions(
    view: View[Any], keys: Sequence[str], given: Mapping[str, str], moment: int | None
) -> dict[str, Question]:
    """The questions by key. The end of trailing windows is `moment`, if the request has no other."""
    known = view.query.__struct_encode_fields__ if view.query else ()
    if "at" in known and "at" not in given:
        if moment is None:
            typer.echo(
                "streamstate: the windows end at the present; give --query at=MILLISECONDS for another end", err=True
            )
        else:
            given = {**given, "at": str(moment)}
    if (view.key is None) != (not keys):
        msg = f"{view.path} takes {'no key' if view.key is None else 'a key; give one or more'}"
        raise typer.BadParameter(msg)
    asked = parameters(view.query, given) if view.query else None
    return {key: view.ask(key, asked) for key in keys or [""]}


def _answers(
    of: Deployment, view: View[Any], questions: dict[str, Question], moment: int | None, position: str
) -> list[PastAnswer]:
    logs = Logs(of.app, view, of.settings)
    partitions = {key: [*question.partitions(logs.counts)] for key, question in questions.items()}
    needed = {partition for each in partitions.values() for partition in each}
    for warning in logs.warnings(needed):
        typer.echo(f"streamstate: {warning}", err=True)
    if moment is not None and (span := logs.span()) and moment not in span and span.unit(moment):
        msg = f"the time is {shown(moment)}, {span.refusal(moment)}"
        raise Declined(msg)
    overtaken = Overtaken([moment or 0])
    with output.bar("records") as logs.notice, logs.past(needed, overtaken) as past:
        if moment is None:
            past.advance_to(offsets_at(position, logs, needed))
        else:
            past.advance_until(moment)
            past.look_ahead(moment)
            _warn(overtaken)
        return [
            PastAnswer(key, msgspec.Raw(encoded(past.answer(question))), offsets_text(past.positions(partitions[key])))
            for key, question in questions.items()
        ]


def _warn(overtaken: Overtaken) -> None:
    if overtaken.records:
        typer.echo(
            f"streamstate: {overtaken.records:,} records with earlier timestamps are left out, since they come behind "
            "a later one in their partition; --position includes them",
            err=True,
        )


def offsets_at(text: str, logs: Logs, partitions: set[int]) -> dict[TopicPartition, int]:
    """The offsets of a position.

    Raises `Declined` for a position without an offset of a needed partition, or with an offset beyond its end.
    """
    given = offsets_of(text)
    for topic in logs.view_topics:
        for partition in sorted(partitions):
            if partition < logs.counts[topic] and (topic, partition) not in given:
                short = " (a long header has the greatest offset of a topic only)" if (topic, EACH) in given else ""
                msg = f"the position has no offset of {topic}:{partition}{short}; give TOPIC:PARTITION=OFFSET of each"
                raise Declined(msg)
    for (topic, partition), end in logs.ends(partitions).items():
        if (offset := given.get((topic, partition), 0)) > end:
            msg = f"{topic}:{partition} ends at the offset {end}, before {offset}; give the position of an answer"
            raise Declined(msg)
    return dict(given)
