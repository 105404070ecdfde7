"""`streamstate profile check`: the faults of a file, and a count of the topic's last records."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated

import msgspec
import typer
import yaml
from confluent_kafka import KafkaError, KafkaException
from rich.console import RenderableType

from streamstate.cli import output
from streamstate.cli.output import AsJson, Exit
from streamstate.cli.profiles.declared import Declared, File, Offsets
from streamstate.cli.profiles.dry_run import DryRun, FieldReport, dry_run
from streamstate.processing.decode import RawRecord
from streamstate.processing.placement import advice, fitting
from streamstate.processing.topic_settings import Finding
from streamstate.profile.file import located
from streamstate.profile.measure import EVER, BadDeclaration, MeasureWords
from streamstate.profile.rules.rule import RuleWords

_AWAY = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE}


class Checked(msgspec.Struct):
    """A valid profile: its measures and rules as resolved, and the dry run, or why there is none.

    faults: the faults that the records of the topic show, and settings of topics that a stream refuses. warnings: other
        wrong settings.
    """

    name: str
    topic: str
    path: str
    measures: dict[str, str]
    rules: dict[str, str]
    dry_run: DryRun | None
    skipped: str
    faults: list[str] = []
    warnings: list[str] = []


def check(
    file: File,
    *,
    records: Annotated[int, typer.Option(min=1, help="Number of records.")] = 1_000,
    no_kafka: Annotated[bool, typer.Option("--no-kafka", help="Check the file alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the YAML file of a profile, and count the last records of its topic.

    Exit status 1: most records would be refused, a field is in no event, or keys look like another type, or placed by
    another partitioner; 3: a fault of the file.
    """
    of = Declared.of(file, alone=no_kafka)
    of.require_free_paths(file)
    declared, source = of.declaration, of.source
    counted, skipped, mistaken, findings = None, "--no-kafka", list[str](), list[Finding]()
    if not no_kafka:
        try:
            begins, ends = of.bounds()
            last = last_records(of, begins, ends, records)
            counted, skipped = dry_run(declared, source, last, of.latest), ""
            mistaken = [counted.keys, _other_partitioner(of, islice(of.records(begins), records), last, len(ends))]
            findings = of.findings()
        except KafkaException as error:
            if error.args[0].code() not in _AWAY:
                raise
            skipped = f"no Kafka at {of.settings.kafka}: correct STREAMSTATE_KAFKA, or give --no-kafka"
    measures = {name: _text(words, EVER) for name, words in declared.measures.items()}
    windows = {rule.name: rule.window.label if rule.window else EVER for rule in declared.ruled}
    rules = {name: _text(words, windows[name]) for name, words in declared.rules.items()}
    faults = [str(located(BadDeclaration(reason, "key"), file, file.read_text())) for reason in mistaken if reason]
    faults += counted.faults if counted else []
    faults += [finding.text for finding in findings if finding.effect != "nothing"]
    warnings = [finding.text for finding in findings if finding.effect == "nothing"]
    answer = Checked(of.app.name, source.topic, declared.path, measures, rules, counted, skipped, faults, warnings)
    output.show(answer, *_overview(answer), as_json=as_json)
    if faults:
        raise typer.Exit(Exit.REFUSED)
    if not (counted or no_kafka):
        raise typer.Exit(Exit.UNREACHABLE)


def _other_partitioner(
    of: Declared,
    first: Iterable[tuple[int, RawRecord]],
    last: Mapping[int, Sequence[RawRecord]],
    partitions: int,
) -> str:
    """What to do where the keys of the sampled records are placed otherwise than declared; empty where they are not."""
    sample = [*first, *((partition, record) for partition, records in last.items() for record in records)]
    fits = fitting(of.source, ((partition, key) for partition, (*_, key, _) in sample), partitions)
    return advice(of.app, of.source, fits)


def last_records(of: Declared, begins: Offsets, ends: Offsets, number: int) -> dict[int, list[RawRecord]]:
    """The last `number` records, by partition: evenly of all partitions, as far as they have records."""
    read: defaultdict[int, list[RawRecord]] = defaultdict(list)
    if starts := _starts(begins, ends, number):
        for partition, record in islice(of.records(starts), number):
            read[partition].append(record)
    return dict(read)


def _starts(begins: Offsets, ends: Offsets, number: int) -> dict[int, int]:
    """The offsets of the partitions from which `number` records follow."""
    starts: dict[int, int] = {}
    by_size = sorted(ends, key=lambda partition: ends[partition] - begins[partition])
    for done, partition in enumerate(by_size):
        share = min(ends[partition] - begins[partition], -(-number // (len(ends) - done)))
        number -= share
        if share:
            starts[partition] = ends[partition] - share
    return starts


def _text(words: MeasureWords | RuleWords, window: str) -> str:
    """A measure or rule in one line; `window` is the default of `over`."""
    written = msgspec.to_builtins(words)
    over = written.pop("over", window)
    named = yaml.safe_dump(written, default_flow_style=True, width=10_000, sort_keys=False).strip()[1:-1]
    return f"{named}, over: {over if isinstance(over, str) else ' '.join(over)}"


def _overview(answer: Checked) -> Iterator[RenderableType]:
    found = answer.dry_run
    yield f"{answer.name}: {answer.path} from {answer.topic}\n"
    counted = ("events",) if found else ()
    rows = [(name, text, *((f"{found.measures[name]:,}",) if found else ())) for name, text in answer.measures.items()]
    yield output.table(("measure", "", *counted), rows)
    if answer.rules:
        yield output.table(("\nrule", ""), answer.rules.items())
    if found is None:
        yield f"\nno records counted: {answer.skipped}"
        return
    fields = [(name, of.type, f"{of.events:,}", _hint(found, of)) for name, of in found.fields.items()]
    yield output.table(("\nfield", "\ntype", "\nevents", ""), fields)
    yield f"\n{found.records:,} records read, of which {sum(found.refused.values()):,} would be refused"
    if found.others:
        yield f"{found.others:,} records are left out by `where`"
    if found.nulls:
        yield f"{found.nulls:,} records have no value, such as tombstones: they are no events"
    if found.refused:
        rows = [(reason, f"{number:,}", found.steps[reason]) for reason, number in found.refused.items()]
        yield output.table(("reason", "records", "next step"), rows)
    yield from (f"\n{text}" for text in (*answer.faults, *answer.warnings))


def _hint(found: DryRun, field: FieldReport) -> str:
    if field.events or not found.records:
        return ""
    if field.step:
        return f"of another type: {field.step}"
    if field.nearest:
        return f"in no event; did you mean {field.nearest}?"
    return "in refused records alone" if found.refused and not field.absent else "in no event"
