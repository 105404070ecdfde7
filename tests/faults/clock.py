"""A clock that the Python processes of a test believe in; the JVM decides nothing by the clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BELIEVED = Path(__file__).with_name("believed")


class Clock:
    """The machine's clock, shifted by `set` seconds; the monotonic clock is unchanged."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, seconds: int) -> None:
        # Replaced atomically: a process may read the file at any time.
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)

    @contextmanager
    def believed(self) -> Iterator[None]:
        """A `Child` created in this block uses this clock."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOCK_FILE", str(self._file))
            patch.setenv("PYTHONPATH", str(BELIEVED))
            yield
