"""What a metric is, to those who count and to those who read the counts."""

from typing import NamedTuple


class Definition(NamedTuple):
    """A metric: its name, its labels, and what it means or what to do about it."""

    name: str
    labels: tuple[str, ...]
    meaning: str
