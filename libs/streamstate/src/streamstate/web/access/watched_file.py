"""Files, such as a mounted Secret, read again after a change."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from streamstate.errors import Misconfigured

log = structlog.get_logger()

T = TypeVar("T")

CHECK_S = 1.0
"""The least seconds between two checks of a file."""


class WatchedFiles(Generic[T]):
    """The result of `load` on the files `paths`. Changed files that cannot be loaded keep the last good content.

    load: raises `OSError`, or `Misconfigured` without the content in its message.
    failed: called with the files' names at each check of unusable files.
    """

    def __init__(
        self, paths: Sequence[Path], load: Callable[[], T], failed: Callable[[str], None] | None = None
    ) -> None:
        """Raises `Misconfigured` when the files cannot be loaded."""
        self._paths = paths
        self._load = load
        self._failed = failed
        self._reported = ""
        try:
            self._seen = list(map(signature, paths))
            self._content = load()
        except (OSError, Misconfigured) as error:
            msg = f"{', '.join(map(str, paths))} cannot be used: {error}"
            raise Misconfigured(msg) from error
        self._next = time.monotonic() + CHECK_S

    @property
    def content(self) -> T:
        """The last good content, at most `CHECK_S` old. The same object until a file changes."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + CHECK_S
            self._check()
        return self._content

    def _check(self) -> None:
        names = ", ".join(path.name for path in self._paths)
        try:
            now = list(map(signature, self._paths))
            if now != self._seen:
                self._content = self._load()
                self._seen, self._reported = now, ""
                log.info("a changed file was read", file=names)
        except (OSError, Misconfigured) as error:
            if self._failed is not None:
                self._failed(names)
            if str(error) != self._reported:
                self._reported = str(error)
                log.error("a changed file cannot be used; the last good content stays", file=names, reason=str(error))


class WatchedFile(WatchedFiles[T]):
    """The result of `parse` on the content of a file. `parse` raises `Misconfigured`."""

    def __init__(self, path: Path, parse: Callable[[bytes], T], failed: Callable[[str], None] | None = None) -> None:
        super().__init__([path], lambda: parse(path.read_bytes()), failed)


def signature(path: Path) -> tuple[int, int, int]:
    """Changes with the content. The signature of a link is its target's, as Kubernetes changes a Secret."""
    status = os.stat(path)  # noqa: PTH116, each look costs half as much
    return status.st_mtime_ns, status.st_ino, status.st_size
