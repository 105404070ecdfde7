"""Laws of the archiver's decisions, and of the compaction."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.errors import StreamStateError
from streamstate.history.archive.compaction import compact, planned
from streamstate.history.archive.files import EMPTIED, Archive, Archived
from streamstate.history.archive.planning import Unarchived, is_due, joins
from streamstate.history.archive.rows import Row, batch
from streamstate.history.archive.segments import Segment, covered
from streamstate.keys import MARKER_HEADER

PLACE = ("plays", 0)
LIMIT = 100


def archived(first: int, last: int, size: int) -> Archived:
    return Archived(Segment(first, last), size, "", 0.0)


FILES = st.lists(st.builds(lambda first, n, size: archived(first, first + n, size), st.integers(0, 60),
                           st.integers(0, 9), st.integers(1, 120)), unique_by=lambda file: file.segment)  # fmt: skip


@given(FILES)
def test_joined_files_are_full_or_alone_and_left_alone_afterwards(files: list[Archived]) -> None:
    groups = joins(files, LIMIT)
    for group in groups:
        assert sum(file.size for file in group) <= LIMIT
        assert all(file.size < LIMIT / 2 for file in group)
        one = Segment(group[0].segment.first, max(file.segment.last for file in group))
        assert covered([file.segment for file in group], one.first) == one.last + 1
    left = set(files) - {file for group in groups for file in group}
    made = [
        archived(group[0].segment.first, max(file.segment.last for file in group), sum(file.size for file in group))
        for group in groups
    ]
    assert joins([*left, *made], LIMIT) == []


@given(st.integers(0, 9), st.integers(0, 99), st.floats(0, 99), st.floats(0, 99))
def test_a_partition_is_due_with_records_after_the_period_or_for_a_full_file(
    start: int, records: int, age_s: float, record_bytes: float
) -> None:
    backlog = Unarchived(start, start + records, 1_000.0, record_bytes)
    due = is_due(backlog, 1_000.0 + age_s, 50.0, 1_000)
    assert due == (records > 0 and (1_000.0 + age_s - 1_000.0 >= 50 or records * record_bytes >= 1_000))


def test_a_partition_without_a_file_is_due_at_its_first_record() -> None:
    assert not is_due(Unarchived(5, 5), 2e9, 3_600)
    assert is_due(Unarchived(5, 6), 2e9, 3_600)


def test_a_clock_that_was_set_back_delays_no_file_beyond_the_period() -> None:
    assert not is_due(Unarchived(5, 6, written=2e9 + 60), 2e9, 3_600)
    assert is_due(Unarchived(5, 6, written=2e9 + 86_400), 2e9, 3_600)


def filled(folder: Path, files: int = 6, each: int = 10) -> Archive:
    """Files of `each` records; the key of a record is its offset modulo 3."""
    archive = Archive(str(folder))
    for first in range(0, files * each, each):
        rows = [(n, n, 1, str(n % 3).encode(), b"v", None) for n in range(first, first + each)]
        archive.write(PLACE, Segment(first, first + each - 1), "id", [batch(rows)])
    return archive


def offsets(rows: Iterator[pa.RecordBatch]) -> list[Any]:
    return [offset for each in rows for offset in each["offset"].to_pylist()]


def test_small_files_are_joined_and_records_of_deleted_users_are_in_no_file(tmp_path: Path) -> None:
    archive = filled(tmp_path)
    erased = {b"1": 25, b"9": 99}
    kept = [n for n in range(60) if n % 3 != 1 or n >= 25]
    assert planned(archive, PLACE, erased) == (6, 0)
    assert compact(archive, PLACE, erased) == (6, 60 - len(kept))
    assert archive.segments(PLACE) == [Segment(0, 59)]
    assert offsets(archive.read(PLACE, 0)) == kept
    assert compact(archive, PLACE, erased) == planned(archive, PLACE, erased) == (0, 0)
    assert compact(archive, PLACE, {b"2": 60}).files == 1
    assert offsets(archive.rows(PLACE, [Segment(0, 59)])) == [n for n in kept if n % 3 != 2]


def test_of_a_deleted_users_derived_record_the_marker_stays(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    marker: tuple[str, bytes | None] = (MARKER_HEADER, b"m")
    headers: list[list[tuple[str, bytes | None]] | None] = [
        [marker],
        [("name", b"Anna"), marker],
        None,
        [("name", b"Anna")],
        [marker],
        [marker],
    ]
    given: list[Row] = [(n, 7, 1, b"1" if n in (1, 2, 3, 5) else b"2", b"v", found) for n, found in enumerate(headers)]
    for first in (0, 3):
        archive.write(PLACE, Segment(first, first + 2), "id", [batch(given[first : first + 3])])
    assert compact(archive, PLACE, {b"1": 5}) == (2, 3)
    kept: list[Row] = [given[0], (1, 7, EMPTIED, b"1", None, [marker]), given[4], given[5]]
    assert pa.Table.from_batches(archive.read(PLACE, 0)) == pa.Table.from_batches([batch(kept)])
    assert offsets(archive.read(PLACE, 0, 6, columns=["key"], emptied=False)) == [0, 4, 5]
    assert compact(archive, PLACE, {b"1": 5}) == planned(archive, PLACE, {b"1": 5}) == (0, 0)
    assert compact(archive, PLACE, {b"1": 6}) == (1, 1)
    assert offsets(archive.read(PLACE, 0)) == [0, 1, 4, 5]


def test_full_files_without_deleted_users_are_left_alone(tmp_path: Path) -> None:
    archive = filled(tmp_path)
    before = archive.files(PLACE)
    assert compact(archive, PLACE, {b"1": 25}, file_bytes=1).files == 3
    assert archive.files(PLACE)[3:] == before[3:]


@pytest.mark.parametrize("step", range(12))
def test_a_kill_at_any_step_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    archive = filled(tmp_path)
    reading = archive.read(PLACE, 0)
    read = offsets(iter([next(reading)]))
    killed(archive, step, lambda: compact(archive, PLACE, {}), monkeypatch)
    assert offsets(archive.read(PLACE, 0)) == read + offsets(reading) == list(range(60))
    compact(archive, PLACE, {})
    assert archive.segments(PLACE) == [Segment(0, 59)]
    assert offsets(archive.read(PLACE, 0)) == list(range(60))


class Overlapped(Archive):
    """An archive in which another compaction, `meanwhile`, runs as a whole before the listing number `moment`."""

    def __init__(self, uri: str, moment: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(uri)
        self.moment, self._meanwhile = moment, meanwhile

    def files(self, place: tuple[str, int]) -> list[Archived]:
        self.moment -= 1
        if self.moment == 0:
            self._meanwhile()
        return super().files(place)


@pytest.mark.parametrize("moment", range(1, 8))
@pytest.mark.parametrize("file_bytes", [1, 1 << 20])
def test_of_two_compactions_at_a_time_one_is_refused_or_neither_does_harm(
    tmp_path: Path, file_bytes: int, moment: int
) -> None:
    archive = filled(tmp_path)
    kept = [n for n in range(60) if n % 3 != 1]
    overlapped = Overlapped(str(tmp_path), moment, lambda: compact(archive, PLACE, {b"1": 60}, file_bytes))
    with suppress(StreamStateError, FileNotFoundError):
        # It has read of fewer deletions before.
        compact(overlapped, PLACE, {b"1": 3}, file_bytes)
    if overlapped.moment > 0:
        compact(archive, PLACE, {b"1": 60}, file_bytes)
    assert offsets(archive.read(PLACE, 0)) == kept


class MovingFiles:
    """A file system in which a file goes away during each second listing, for which Arrow raises this error."""

    def __init__(self, files: Any) -> None:
        self._files, self._calls = files, count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def get_file_info(self, asked: Any) -> Any:
        if next(self._calls) % 2 == 0:
            msg = "Cannot list directory"
            raise FileNotFoundError(msg)
        return self._files.get_file_info(asked)


def test_a_file_that_goes_away_during_a_listing_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = filled(tmp_path)
    monkeypatch.setattr(archive, "_fs", MovingFiles(archive._fs))
    assert archive.topics() == {"plays": [0]}
    compact(archive, PLACE, {})
    assert archive.segments(PLACE) == [Segment(0, 59)]


class FailingFiles:
    """A file system that fails for good at a change."""

    def __init__(self, files: Any, left: int) -> None:
        self._files = files
        self._left = left

    def __getattr__(self, name: str) -> Any:
        if name in ("move", "delete_file", "open_output_stream"):
            if self._left <= 0:
                raise InterruptedError
            self._left -= 1
        return getattr(self._files, name)


def killed(archive: Archive, step: int, run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Call `run`, which fails at the change number `step` of the files and at each later change."""
    with monkeypatch.context() as patch:
        patch.setattr(archive, "_fs", FailingFiles(archive._fs, step))
        try:
            run()
        except InterruptedError:
            return
