"""The commands of `streamstate archive`. Arrow is imported on demand: some images lack it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from streamstate.cli import output
from streamstate.cli.archives.deleted import Deleted
from streamstate.cli.output import AsJson, DryRun, Exit
from streamstate.cli.services import configured, imported
from streamstate.errors import Declined, Misconfigured, StreamStateError
from streamstate.history.archive.segments import Segment, gaps
from streamstate.kafka.security import rights
from streamstate.settings import CommandSettings
from streamstate.state.store import TopicPartition

if TYPE_CHECKING:
    from streamstate.history.archive.files import Archive

app = typer.Typer(
    help="Lists, checks and compacts the archive that STREAMSTATE_ARCHIVE names.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Topics = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Default: all of the archive.")]


class ArchivedPartition(msgspec.Struct):
    """A partition's files: offsets from `first` on, before `end`, without the offsets in `gaps`.

    since, until: the least timestamp of the first file, and the greatest of the last (milliseconds since 1970).
    """

    topic: str
    partition: int
    files: int
    bytes: int
    first: int
    end: int
    since: int | None
    until: int | None
    gaps: list[Segment]


class Compacted(msgspec.Struct):
    """A partition's files and bytes, the joined or rewritten files, and the records of deleted users left out."""

    topic: str
    partition: int
    files: int
    bytes: int
    rewritten: int
    left_out: int


@app.command("list")
def of_files(topics: Topics = None, *, as_json: AsJson = False) -> None:
    """List the partitions of the archive: files, bytes, offsets, times and missing offsets."""
    archive = opened(configured())
    if archive.is_missing:
        msg = f"there is no archive at {archive.uri}; check STREAMSTATE_ARCHIVE, and the log of the archiver"
        raise Declined(msg)
    found = [_partition(archive, place) for place in places(archive, topics)]
    columns = "topic", "partition", "files", "bytes", "first offset", "next offset", "from", "to", "missing offsets"
    output.show(found, output.table(columns, map(_row, found)), as_json=as_json)


@app.command("verify")
def against_kafka(
    topics: Topics = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All records, not a sample.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the archive with Kafka: missing offsets by the names of files, and records by their contents.

    Exit status 1: missing offsets, or a difference. Records of deleted users, and of compacted topics, may differ.
    """
    settings = configured()
    archive = opened(settings)
    if not (of := places(archive, topics)):
        msg = f"{archive.uri} has no files; check STREAMSTATE_ARCHIVE, and the log of the archiver"
        raise Declined(msg)
    comparison = imported("streamstate.cli.archives.comparison").ArchiveCheck(
        settings, archive, Deleted.present(settings)
    )
    found = [comparison.partition(place, everything=everything) for place in _with_progress(of)]
    columns = "topic", "partition", "next offset", "records behind Kafka", "compared records", "faults"
    rows = [
        (each.topic, each.partition, each.end, each.behind, each.compared, "; ".join(each.faults) or "-")
        for each in found
    ]
    output.show(found, output.table(columns, rows), as_json=as_json)
    if any(each.faults for each in found):
        raise typer.Exit(Exit.REFUSED)


@app.command("compact")
def in_place(topics: Topics = None, *, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Join small files up to 128 MB, and leave out the records of deleted users.

    Archivers and readers go on. Exit status 1: a damaged file, or a second compaction.
    """
    settings = configured()
    archive = opened(settings)
    compaction = imported("streamstate.history.archive.compaction")
    run = compaction.planned if dry_run else compaction.compact
    deleted = Deleted.present(settings)
    found, faults = [], 0
    for place in _with_progress(places(archive, topics)):
        try:
            topic_id = archive.topic_id(place)
            made = run(archive, place, deleted.of(place, topic_id), sent=deleted.sent(place, topic_id))
        except (StreamStateError, FileNotFoundError) as error:
            typer.echo(f"streamstate: {place[0]}:{place[1]} is not compacted, run it again: {error}", err=True)
            faults += 1
            continue
        files = archive.files(place)
        found.append(Compacted(*place, len(files), sum(file.size for file in files), *made))
    columns = "topic", "partition", "files", "bytes", "rewritten files", "records left out"
    rows = [(*msgspec.structs.astuple(each),) for each in found]
    output.show(found, output.table(columns, rows), as_json=as_json)
    if faults:
        raise typer.Exit(Exit.REFUSED)


@app.command("acl")
def of_kafka(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC")],
    user: Annotated[str, typer.Option(help="The archiver's user.")] = "archive",
    group: Annotated[str, typer.Option(help="The archivers' consumer group.")] = "streamstate-archive",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the commands to grant the archiver's user its topics and group, as `streamstate acl kafka` does."""
    settings = configured()
    granted = [*rights.of_archiver(topics, group, settings.deletions)]
    output.show(granted, *(rights.command(each, f"User:{user}", settings.kafka) for each in granted), as_json=as_json)


def opened(settings: CommandSettings) -> "Archive":
    """The archive. Raises `Misconfigured` without one."""
    if not settings.archive:
        msg = "set STREAMSTATE_ARCHIVE to the archive: a folder, or a URI such as s3://bucket/path"
        raise Misconfigured(msg)
    made: Archive = imported("streamstate.history.archive.files").Archive(settings.archive)
    return made


def places(archive: "Archive", topics: Sequence[str] | None) -> list[TopicPartition]:
    """The archived partitions of `topics`, or of all. Raises `Declined` for a topic without files."""
    archived = archive.topics()
    if unknown := [topic for topic in topics or () if topic not in archived]:
        msg = f"{archive.uri} has no files of {', '.join(unknown)}; it has {', '.join(archived) or 'no topic'}"
        raise Declined(msg)
    return [(topic, partition) for topic in topics or archived for partition in archived[topic]]


def _partition(archive: "Archive", place: TopicPartition) -> ArchivedPartition:
    files = archive.files(place)
    segments = [file.segment for file in files]
    size = sum(file.size for file in files)
    if not files:
        return ArchivedPartition(*place, 0, 0, 0, 0, None, None, [])
    since, until = archive.times(place, min(segments)), archive.times(place, max(segments))
    end = max(segment.last for segment in segments) + 1
    times = since and since[0], until and until[1]
    return ArchivedPartition(*place, len(files), size, min(segments).first, end, *times, gaps(segments))


def _row(of: ArchivedPartition) -> tuple[object, ...]:
    lacking = ", ".join(f"{gap.first}-{gap.last}" for gap in of.gaps) or "-"
    times = _time(of.since), _time(of.until)
    return of.topic, of.partition, of.files, f"{of.bytes:,}", of.first, of.end, *times, lacking


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1_000, UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError):
        # Producers may set any time.
        return str(milliseconds)


def _with_progress(found: Sequence[TopicPartition]) -> Iterator[TopicPartition]:
    """Each of the partitions, with a bar of their number."""
    with output.progress() as bars:
        yield from bars.track(found, description="partitions")
