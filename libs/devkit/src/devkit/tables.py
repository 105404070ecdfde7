"""Tables in Markdown, and texts for their cells."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line for `head`, and a line for each of `rows`; empty without rows."""
    lines = list(rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *lines)) if lines else ""


def docstring(kind: type) -> str:
    """The docstring of `kind` in a single line."""
    return " ".join((kind.__doc__ or "").split())
