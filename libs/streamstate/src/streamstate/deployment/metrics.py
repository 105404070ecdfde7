"""Definitions of metrics."""

from typing import NamedTuple


class Definition(NamedTuple):
    """A metric: its name, its labels, and its meaning, with what to do about it."""

    name: str
    labels: tuple[str, ...]
    meaning: str
