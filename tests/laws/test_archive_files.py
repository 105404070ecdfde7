"""Laws of the archive's files: each offset once, whole files only, whatever was written twice or left behind."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.deployment.connections import ArchiveSettings
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.compaction import compact
from streamstate.history.archive.files import SCHEMA, Archive, Archived
from streamstate.history.archive.segments import Segment, covered, gaps, named, sections, superseded
from streamstate.settings import load

PLACE = ("plays", 3)
SEGMENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15)).map(lambda drawn: Segment(drawn[0], drawn[0] + drawn[1])),
    max_size=12,
)


def rows(offsets: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": 1_000 + offset,
                "timestamp_type": 1,
                "key": b"k%d" % offset,
                "value": None if offset % 7 == 0 else b"v%d" % offset,
                "headers": [{"key": "h", "value": b"%d" % offset}] if offset % 3 == 0 else None,
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def offsets(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(offset) for batch in batches for offset in batch["offset"].to_numpy()]


@given(SEGMENTS, st.integers(0, 50), st.none() | st.integers(0, 60))
def test_sections_have_each_offset_once_up_to_the_first_missing(
    segments: list[Segment], start: int, stop: int | None
) -> None:
    held = {offset for segment in segments for offset in range(segment.first, segment.last + 1)}
    end = start
    while end in held and (stop is None or end < stop):
        end += 1
    taken = [offset for section in sections(segments, start, stop) for offset in range(section.start, section.stop)]
    assert taken == list(range(start, end))
    assert all(
        each.segment.first <= each.start < each.stop <= each.segment.last + 1 for each in sections(segments, start)
    )


@given(SEGMENTS)
def test_superseded_segments_are_needed_by_nobody(segments: list[Segment]) -> None:
    left = set(segments) - set(superseded(segments))
    for start in range(60):
        assert covered(left, start) == covered(segments, start)


@given(SEGMENTS)
def test_gaps_are_the_offsets_between_segments(segments: list[Segment]) -> None:
    held = {offset for segment in segments for offset in range(segment.first, segment.last + 1)}
    missing = [offset for gap in gaps(segments) for offset in range(gap.first, gap.last + 1)]
    assert missing == [offset for offset in range(min(held, default=0), max(held, default=0)) if offset not in held]


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_name_is_its_segment(first: int, last: int) -> None:
    assert named(Segment(first, last).name) == (first, last)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    whole = rows(range(10))
    archive.write(PLACE, Segment(0, 4), "id", [whole.slice(0, 2), whole.slice(2, 3)])
    archive.write(PLACE, Segment(5, 11), "id", [whole.slice(5)])
    assert pa.Table.from_batches(archive.read(PLACE, 0)).combine_chunks() == pa.table(whole)
    assert offsets(archive.read(PLACE, 3, 8, "id", ["key"])) == [3, 4, 5, 6, 7]
    assert covered(archive.segments(PLACE), 0) == 12
    assert archive.topics() == {"plays": [3]}
    assert archive.topic_id(PLACE) == "id"


def test_an_unfinished_file_is_never_read(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield rows(range(5))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        archive.write(PLACE, Segment(0, 9), "id", interrupted())
    (tmp_path / "plays" / "3" / ".killed").write_bytes(b"PAR1")
    assert archive.segments(PLACE) == []
    assert offsets(archive.read(PLACE, 0)) == []
    assert [path.name for path in (tmp_path / "plays" / "3").iterdir()] == [".killed"]


def test_a_file_joined_with_others_while_it_is_read_loses_no_record(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for first in (0, 5):
        archive.write(PLACE, Segment(first, first + 4), "id", [rows(range(first, first + 5))])
    reading = archive.read(PLACE, 0)
    read = offsets(iter([next(reading)]))
    archive.write(PLACE, Segment(0, 9), "id", [rows(range(10))])
    archive.delete(PLACE, [Segment(0, 4), Segment(5, 9)])
    assert read + offsets(reading) == list(range(10))


class Racing(Archive):
    """An archive of five files. The listing number `torn` lacks two files that a compaction joins meanwhile."""

    def __init__(self, folder: Path, torn: int) -> None:
        super().__init__(str(folder))
        for first in range(0, 50, 10):
            self.write(PLACE, Segment(first, first + 9), "id", [rows(range(first, first + 10))])
        self._left = torn

    def listed(self, place: tuple[str, int]) -> list[Archived]:
        self._left -= 1
        return [file for file in super().listed(place) if self._left or file.segment.first not in (20, 30)]


@pytest.mark.parametrize("torn", range(1, 8))
def test_a_listing_beside_a_compaction_hides_no_record(tmp_path: Path, torn: int) -> None:
    assert offsets(Racing(tmp_path, torn).read(PLACE, 0, 50)) == list(range(50))
    assert offsets(Racing(tmp_path, torn).read(PLACE, 5)) == list(range(5, 50))
    assert covered(Racing(tmp_path, torn).segments(PLACE), 0) == 50


def test_a_reader_beside_a_gap_that_a_compaction_leaves_for_good_gets_an_error(tmp_path: Path) -> None:
    archive = Racing(tmp_path, 0)
    archive.delete(PLACE, [Segment(20, 29)])
    with pytest.raises(StreamStateError, match=r"lacks the offset 20 of plays:3"):
        list(archive.read(PLACE, 0, 50))


def _flipped(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20] + bytes(40) + path.read_bytes()[60:])


DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:500]),
    "empty": lambda path: path.write_bytes(b""),
    "flipped": _flipped,
    "foreign": lambda path: pq.write_table(pa.table({"offset": [10, 11]}), path),
    "renamed": lambda path: path.rename(path.with_name(Segment(20, 29).name)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_file_is_an_error_and_stays(tmp_path: Path, damage: str) -> None:
    archive = Archive(str(tmp_path))
    for start in (0, 10):
        archive.write(PLACE, Segment(start, start + 9), "id", [rows(range(start, start + 10))])
    DAMAGES[damage](tmp_path / "plays" / "3" / Segment(10, 19).name)
    (last,) = archive.segments(PLACE)[1:]
    with pytest.raises(StreamStateError, match=r"cannot be read .*copy"):
        list(archive.rows(PLACE, [last]))
    if damage != "flipped":
        with pytest.raises(StreamStateError, match="copy"):
            archive.topic_id(PLACE)
        with pytest.raises(StreamStateError, match="copy"):
            archive.times(PLACE, last)
    if damage != "renamed":
        with pytest.raises(StreamStateError, match="copy"):
            compact(archive, PLACE, {})
    assert archive.segments(PLACE) == [Segment(0, 9), last]


@pytest.mark.parametrize("uri", ["s3://KEY:hid/den@bucket/a", "s3a://KEY:hidden@bucket", "abfs://box:hidden@account/a"])
def test_a_credential_in_a_uri_is_refused_and_not_shown(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_ARCHIVE", uri)
    for read in (lambda: Archive(uri), lambda: load(ArchiveSettings)):
        with pytest.raises(Misconfigured) as refused:
            read()
        assert not re.search("hid/?den", str(refused.value))


def test_files_are_of_their_user_alone(tmp_path: Path) -> None:
    code = (
        "from streamstate import bootstrap; from streamstate.deployment.connections import ArchiveSettings\n"
        "from streamstate.history.archive.files import opened, write_text\n"
        "bootstrap.configure(ArchiveSettings); write_text(opened('.')[0], 'archive/topic/file', b'a')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"archive": 0o700, "topic": 0o700, "file": 0o600}


def test_topics_have_any_name(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path / "a b%20ü"))
    archive.add_schema(7, b"{}")
    for topic in ("_schemas", "__consumer", ".hidden", "plays"):
        archive.write((topic, 0), Segment(0, 0), "id", [rows([0])])
    assert archive.topics() == {topic: [0] for topic in (".hidden", "__consumer", "_schemas", "plays")}
    assert archive.schema(7) == b"{}"
