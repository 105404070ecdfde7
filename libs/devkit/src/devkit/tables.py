"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A line for `head`, and one for each of `rows`; empty when there are none."""
    lines = list(rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *lines)) if lines else ""
