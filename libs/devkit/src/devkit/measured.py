"""A measured run: its table, and its exit status."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic_settings import BaseSettings

from streamstate import bootstrap

S = TypeVar("S", bound=BaseSettings)


@dataclass(frozen=True)
class Row:
    """A line of the table: a measured number, and the most that it may be."""

    name: str
    value: float
    most: float

    @property
    def reached(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        return f"| {self.name} | {self.value:,.1f} | ≤ {self.most:,.1f} | {'yes' if self.reached else 'NO'} |"


def run(kind: type[S], measure: Callable[[S, Path], Iterable[Row]]) -> int:
    """Print the rows of `measure`, called with settings and a scratch folder; the exit status, 1 unless all reached."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = bootstrap.configure(kind)
    with tempfile.TemporaryDirectory() as home:
        rows = [*measure(settings, Path(home))]
    sys.stdout.write("| measured | value | to reach | reached |\n| --- | --- | --- | --- |\n")
    sys.stdout.writelines(f"{row}\n" for row in rows)
    return 0 if all(row.reached for row in rows) else 1
