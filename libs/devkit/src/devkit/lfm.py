"""Listening events and names from a folder in the format of the LFM-1b data set (Schedl, 2016).

Files `LFM-1b_LEs*.txt`, `LFM-1b_artists*.txt`, `LFM-1b_albums*.txt` and `LFM-1b_tracks*.txt`: UTF-8, columns
separated by tabs, without header or quoting.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from devkit import DevkitError, records
from services.events import KINDS

R = TypeVar("R")
Columns = tuple[str, ...]

_EVENTS = ("user id", "artist id", "album id", "track id", "time in s")
_COLUMNS = (("artist id", "name"), ("album id", "name", "artist id"), ("track id", "name", "artist id"))
_NAMES = dict(zip(KINDS, _COLUMNS, strict=True))


def events(folder: Path) -> Iterator[records.Event]:
    """The events, in the files' order (which is not that of time), their seconds turned into ms.

    Raises `DevkitError`, once iterated, for a missing file, or with file and line for a malformed line.
    """

    def event(fields: list[bytes]) -> records.Event:
        user, artist, album, track, seconds = map(int, fields)
        return records.event(user, artist, album, track, seconds * 1000)

    return _read(folder, "LEs", _EVENTS, event)


def names(folder: Path) -> Iterator[records.Name]:
    """The names of all artists, albums and tracks. Raises `DevkitError` as `events` does."""
    for topic, columns in _NAMES.items():

        def name(fields: list[bytes], topic: str = topic) -> records.Name:
            return records.name(topic, int(fields[0]), fields[1].decode())

        yield from _read(folder, topic, columns, name)


def _read(folder: Path, kind: str, columns: Columns, record: Callable[[list[bytes]], R]) -> Iterator[R]:
    for path in _files(folder, kind):
        # Lines of bytes end at \n alone: a name may hold any other character that ends a line of text.
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                fields = line.rstrip(b"\r\n").split(b"\t")
                try:
                    _require_columns(fields, columns)
                    made = record(fields)
                except (ValueError, OverflowError) as error:
                    msg = f"{path}, line {number}: {error}; correct the line or take it out"
                    raise DevkitError(msg) from error
                yield made


def _require_columns(fields: list[bytes], columns: Columns) -> None:
    if len(fields) != len(columns):
        msg = f"{len(fields)} columns instead of {len(columns)} ({', '.join(columns)}, separated by tabs)"
        raise ValueError(msg)


def _files(folder: Path, kind: str) -> list[Path]:
    pattern = f"LFM-1b_{kind}*.txt"
    files = sorted(folder.glob(pattern))
    if not files:
        msg = f"there is no file {pattern} in {folder}; name a folder that holds the LFM-1b files"
        raise DevkitError(msg)
    return files
