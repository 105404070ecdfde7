"""Listening events and names from a folder in the format of the LFM-1b data set (Schedl, 2016).

Files `LFM-1b_LEs*.txt`, `LFM-1b_artists*.txt`, `LFM-1b_albums*.txt` and `LFM-1b_tracks*.txt`: UTF-8, columns
separated by tabs, without header or quoting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeVar

from devkit import DevkitError
from devkit.events import records
from services.events import KINDS

R = TypeVar("R")
Columns = tuple[str, ...]

_EVENTS = ("user id", "artist id", "album id", "track id", "time in s")
_COLUMNS = (("artist id", "name"), ("album id", "name", "artist id"), ("track id", "name", "artist id"))
_NAMES = dict(zip(KINDS, _COLUMNS, strict=True))


@dataclass
class Files:
    """The files in `folder`. Call `check` before the first record is sent.

    malformed: the malformed lines, by file and number, and the reasons. Without `skip_malformed` a malformed line is
    an error.
    """

    folder: Path
    skip_malformed: bool = False
    malformed: dict[str, Exception] = field(default_factory=dict)

    def check(self) -> None:
        """Read all files. Raises `DevkitError` for a missing file, or with file and line for a malformed line."""
        for _ in chain(self.names(), self.events()):
            pass

    def events(self) -> Iterator[records.Event]:
        """The events in the order of the files, which is not the order of time; seconds are converted to ms.

        The optional members of the events are invented: the files lack device, genre and duration.

        Raises `DevkitError` like `check`.
        """

        def event(fields: list[bytes]) -> records.Event:
            user, artist, album, track, seconds = map(int, fields)
            return records.detailed_event(user, artist, album, track, seconds * 1000)

        return self._read("LEs", _EVENTS, event)

    def names(self) -> Iterator[records.Name]:
        """The names of all artists, albums and tracks. Raises `DevkitError` like `check`."""
        for topic, columns in _NAMES.items():

            def name(fields: list[bytes], topic: str = topic) -> records.Name:
                return records.name(topic, int(fields[0]), fields[1].decode())

            yield from self._read(topic, columns, name)

    def _read(self, kind: str, columns: Columns, record: Callable[[list[bytes]], R]) -> Iterator[R]:
        for path in self._files(kind):
            # Lines of bytes end at \n alone: a name may contain other line separators of text.
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    fields = line.rstrip(b"\r\n").split(b"\t")
                    try:
                        _require_columns(fields, columns)
                        made = record(fields)
                    except (ValueError, OverflowError) as error:
                        self._skip(f"{path}, line {number}", error)
                    else:
                        yield made

    def _skip(self, line: str, error: Exception) -> None:
        if not self.skip_malformed:
            msg = f"{line}: {error}; nothing was sent: correct the line, or skip malformed lines"
            raise DevkitError(msg) from error
        self.malformed[line] = error

    def __str__(self) -> str:
        return f"the files of {self.folder.resolve()}"

    @property
    def skipped(self) -> str:
        """The number of skipped lines and the first line with its error; empty without skipped lines."""
        if not self.malformed:
            return ""
        line, error = next(iter(self.malformed.items()))
        return f"skipped {len(self.malformed):,} malformed lines, the first is {line}: {error}"

    def _files(self, kind: str) -> list[Path]:
        pattern = f"LFM-1b_{kind}*.txt"
        files = sorted(self.folder.glob(pattern))
        if not files:
            msg = f"there is no file {pattern} in {self.folder}; name a folder that holds the LFM-1b files"
            raise DevkitError(msg)
        return files


def _require_columns(fields: list[bytes], columns: Columns) -> None:
    if len(fields) != len(columns):
        msg = f"{len(fields)} columns instead of {len(columns)} ({', '.join(columns)}, separated by tabs)"
        raise ValueError(msg)
