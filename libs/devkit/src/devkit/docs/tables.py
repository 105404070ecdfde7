"""Tables and lists in Markdown, and texts for them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line for `head`, and a line for each of `rows`; empty without rows."""
    lines = list(rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *lines)) if lines else ""


def listed(rows: Iterable[tuple[str, str]]) -> str:
    """A line for names and their meaning, which consecutive names share."""
    lines = groupby(rows, itemgetter(1))
    return "".join(f"- {', '.join(f'`{name}`' for name, _ in of)}{meaning}\n" for meaning, of in lines)


def docstring(kind: type) -> str:
    """The docstring of `kind` in a single line."""
    return " ".join((kind.__doc__ or "").split())
