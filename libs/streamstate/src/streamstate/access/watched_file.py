"""A file, such as a mounted Secret, that is read again when it changes."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from streamstate.errors import Misconfigured

log = structlog.get_logger()

T = TypeVar("T")

LOOK_S = 1.0
"""Least seconds between two looks at a file."""


class WatchedFile(Generic[T]):
    """What `parse` makes of the content of a file. A changed file that cannot be read keeps the last good content.

    parse: raises `Misconfigured` without the content in its message.
    failed: called with the file's name at each look at a file that cannot be read.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], T], failed: Callable[[str], None] | None = None) -> None:
        """Raises `Misconfigured` when the file cannot be read."""
        self._path = path
        self._parse = parse
        self._failed = failed
        self._reported = ""
        try:
            self._seen = signature(path)
            self._content = parse(path.read_bytes())
        except (OSError, Misconfigured) as error:
            msg = f"{path} cannot be used: {error}"
            raise Misconfigured(msg) from error
        self._next = time.monotonic() + LOOK_S

    @property
    def content(self) -> T:
        """The last good content, at most `LOOK_S` old. The same object until the file changes."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LOOK_S
            self._look()
        return self._content

    def _look(self) -> None:
        try:
            now = signature(self._path)
            if now != self._seen:
                self._content = self._parse(self._path.read_bytes())
                self._seen, self._reported = now, ""
                log.info("a changed file was read", file=self._path.name)
        except (OSError, Misconfigured) as error:
            if self._failed is not None:
                self._failed(self._path.name)
            if str(error) != self._reported:
                self._reported = str(error)
                advice = "a changed file cannot be used; the last good content stays"
                log.error(advice, file=self._path.name, reason=self._reported)


def signature(path: Path) -> tuple[int, int, int]:
    """Different for another content. Of a link it is that of the file it leads to, as Kubernetes changes a Secret."""
    status = os.stat(path)  # noqa: PTH116, each look costs half as much
    return status.st_mtime_ns, status.st_ino, status.st_size
