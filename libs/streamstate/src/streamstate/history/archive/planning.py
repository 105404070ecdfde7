"""Decisions of the archiver and of the compaction: the partitions that are due, the files to join."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamstate.history.archive.files import Archived
from streamstate.history.archive.segments import FILE_BYTES, superseded


class Unarchived(NamedTuple):
    """Records of a partition that the archive lacks: offsets from `start` on, before `end`.

    written: the time (seconds since 1970) of the newest file, 0 without a file. record_bytes: the bytes of a record in
    that file.
    """

    start: int
    end: int
    written: float = 0.0
    record_bytes: float = 0.0


def is_due(backlog: Unarchived, now: float, period_s: float, file_bytes: int = FILE_BYTES) -> bool:
    """Whether to write a file: the newest file is `period_s` old, or the backlog fills a file of `file_bytes`.

    A file from the far future is old too: the clock was set back.
    """
    records = backlog.end - backlog.start
    return records > 0 and (abs(now - backlog.written) >= period_s or records * backlog.record_bytes >= file_bytes)


def joins(files: Iterable[Archived], file_bytes: int = FILE_BYTES) -> list[Sequence[Archived]]:
    """Groups of files to join, each into one file of at most `file_bytes`.

    A group has consecutive files of less than half of `file_bytes`, so joined files are left alone.
    """
    groups: list[list[Archived]] = [[]]
    size = 0
    all_files = sorted(files)
    gone = set(superseded(each.segment for each in all_files))
    for file in (each for each in all_files if each.segment not in gone):
        group = groups[-1]
        follows = bool(group) and file.segment.first <= group[-1].segment.last + 1
        is_small = 2 * file.size < file_bytes
        if not (follows and is_small and size + file.size <= file_bytes):
            groups.append(group := [])
            size = 0
        if is_small:
            group.append(file)
            size += file.size
    return [group for group in groups if len(group) > 1]
