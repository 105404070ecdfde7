"""`streamstate dlq`: list, show and replay the dead letters of a service."""

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from streamstate.cli import output
from streamstate.cli.output import AsJson, DryRun, Yes, agree
from streamstate.cli.services import Deployment, Service, deployment
from streamstate.errors import Declined
from streamstate.kafka.dlq.replay import DeadLetterReplay, ReplayPlan
from streamstate.kafka.dlq.topic import Choice, Letter, cause_of, is_receipt, letter_of, letters, overview
from streamstate.kafka.reading import read_to_end

Reason = Annotated[str, typer.Option(help="Text in stage, exception or message.")]

app = typer.Typer(help="The unusable records of a service, in its dead-letter topic.", no_args_is_help=True)


class LetterReport(msgspec.Struct):
    """A dead letter by its own partition and offset. `topic`, `of_partition` and `of_offset` name its record."""

    partition: int
    offset: int
    written: str
    topic: str
    of_partition: int | None
    of_offset: int | None
    stage: str
    exception: str
    message: str


class Letters(msgspec.Struct):
    """All letters of a service, counted, and the latest."""

    service: str
    letters: int
    replayed: int
    by_reason: dict[str, int]
    by_topic_and_partition: dict[str, int]
    latest: list[LetterReport]


class Shown(msgspec.Struct):
    """A complete letter. Key, value and headers are the record's; bytes that are no text are in hex."""

    letter: LetterReport
    replayed: bool
    timestamp: int | None
    key: str | None
    value: str | None
    headers: dict[str, str | None]
    value_bytes: int
    complete: bool


class Replayed(msgspec.Struct):
    """How many records each topic has got again, and how many letters were left out, and why."""

    service: str
    topics: dict[str, int]
    left_out: dict[str, int]
    dry_run: bool


@app.command("list")
def list_letters(
    service: Service,
    *,
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of letters.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Count the dead letters of a service by reason and partition of the record, and list the latest."""
    of = deployment(service)
    messages = letters(of.topics, of.app.dead_letters)
    seen = overview(messages, Choice(reason=reason), limit)
    places = {f"{topic}:{partition}": count for (topic, partition), count in sorted(seen.by_place.items())}
    latest = [_report(letter) for letter in seen.latest]
    answer = Letters(
        of.app.name, seen.by_reason.total(), seen.replayed, dict(seen.by_reason.most_common()), places, latest
    )
    columns = ("letter", "written", "of", "reason")
    rows = [
        (f"{each.partition}:{each.offset}", each.written, _source(each), letter.reason)
        for each, letter in zip(latest, seen.latest, strict=True)
    ]
    output.show(
        answer,
        f"{answer.letters:,} dead letters of {answer.service}, of which {answer.replayed:,} were replayed\n",
        output.table(("reason", "letters"), answer.by_reason.items()),
        output.table(("\ntopic:partition", "\nletters"), answer.by_topic_and_partition.items()),
        output.table(tuple(f"\n{column}" for column in columns), rows),
        as_json=as_json,
    )


@app.command()
def show(
    service: Service,
    partition: Annotated[int, typer.Argument(min=0)],
    offset: Annotated[int, typer.Argument(min=0)],
    *,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter, by its own PARTITION and OFFSET, as in `dlq list`."""
    of = deployment(service)
    shown = _shown(of, partition, offset)
    fields = {**msgspec.structs.asdict(shown.letter), **msgspec.structs.asdict(shown)}
    rows = [(name, "-" if value is None else value) for name, value in fields.items() if name not in _NESTED]
    headers = [(name, "-" if value is None else value) for name, value in shown.headers.items()]
    output.show(shown, output.table(("", ""), [*rows, *headers, ("value", shown.value)]), as_json=as_json)


_NESTED = ("letter", "headers", "value")


@app.command()
def replay(
    service: Service,
    *,
    partition: Annotated[int | None, typer.Option(min=0, help="Default: all.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Offset of a letter in --partition.")] = None,
    reason: Reason = "",
    again: Annotated[bool, typer.Option("--again", help="Replayed letters too.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send the records of dead letters to their topics again, once each."""
    if offset is not None and partition is None:
        msg = "--offset needs --partition of the letter"
        raise typer.BadParameter(msg)
    of = deployment(service)
    choice = Choice(partition, offset, reason)
    replay = DeadLetterReplay(of.app, of.topics, choice, again)
    with nullcontext() if dry_run else of.locked("dlq replay") as lock:
        plan = replay.plan()
        if plan.places and lock:
            warning = "Every service of these topics gets the records again, even if it has folded them before."
            agree([_text(plan), warning], "Replay?", yes=yes)
            lock.require()
            plan = replay.run()
    answer = Replayed(of.app.name, dict(plan.topics), dict(plan.left_out), dry_run)
    output.show(answer, f"{'to be replayed' if dry_run else 'replayed'}: {_text(plan)}", as_json=as_json)


def _text(plan: ReplayPlan) -> str:
    topics = " and ".join(f"{count} records to {topic}" for topic, count in plan.topics.items()) or "nothing"
    left_out = "".join(f"; left out: {count} {why}" for why, count in plan.left_out.items())
    return f"{topics}{left_out}"


def _shown(of: Deployment, partition: int, offset: int) -> Shown:
    """The letter at this place. Raises `Declined` when there is none."""
    topic = of.app.dead_letters
    if partition < of.topics.partitions(topic):
        messages = read_to_end(of.settings.kafka, {(topic, partition): offset}, of.settings.security)
        first = next(messages, None)
        if first is not None and first.offset() == offset and not is_receipt(first):
            letter = letter_of(first)
            # Its receipt has the same key, and so follows in the same partition.
            replayed = any(is_receipt(later) and cause_of(later) == letter.cause for later in messages)
            return _all_of(letter, replayed=replayed)
    msg = f"{topic} has no dead letter at {partition}:{offset}; `streamstate dlq list SERVICE` lists all"
    raise Declined(of.commands.complete(msg))


def _all_of(letter: Letter, *, replayed: bool) -> Shown:
    value = letter.value
    headers = {name: _printable(text.encode() if isinstance(text, str) else text) for name, text in letter.headers}
    size = len(value or b"") if letter.size is None else letter.size
    return Shown(
        _report(letter),
        replayed,
        letter.timestamp,
        _printable(letter.key),
        _printable(value),
        headers,
        size,
        letter.size is None,
    )


def _report(letter: Letter) -> LetterReport:
    written = datetime.fromtimestamp(letter.written / 1000, UTC).isoformat(timespec="seconds")
    _, partition, offset = letter.cause or (None, None, None)
    place = letter.topic, partition, offset
    return LetterReport(
        letter.partition, letter.offset, written, *place, letter.stage, letter.exception, letter.message
    )


def _source(letter: LetterReport) -> str:
    return f"{letter.topic}:{letter.of_partition}:{letter.of_offset}"


def _printable(content: bytes | None) -> str | None:
    """The text, or hex for bytes that are no printable text."""
    if content is None:
        return None
    text = content.decode(errors="replace")
    return text if "\N{REPLACEMENT CHARACTER}" not in text and text.isprintable() else f"0x{content.hex()}"
