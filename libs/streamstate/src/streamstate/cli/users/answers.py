"""Any answer of the API for people: values as rows, and each list of objects as a table, rankings with bars."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from rich.bar import Bar
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

_BAR_WIDTH = 12
_WIDTH = 80
"""Columns of an answer in a file or a pipe."""

_INLINE = 48
"""The most characters of an object in the line of its name."""

_TIMES = range(10**12, 2 * 10**12)
"""Milliseconds since 1970, from 2001 to 2033, as opposed to counts."""

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Rendered:
    """An answer: values first, an indented line each, then lists of objects side by side where there is room."""

    answer: Item

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = Table.grid(padding=(0, 2))
        for name, value in _rows(self.answer):
            rows.add_row(Text(name, style="bold"), Text(value))
        tables = [_table(name, items) for name, items in _tables(self.answer)]
        width = options.max_width if console.is_terminal else _WIDTH
        given = options.update(width=width, no_wrap=False, overflow="fold")
        yield from console.render(Group(rows, "", Columns(tables, padding=(1, 3))), given)


def rendered(answer: Item) -> RenderableType:
    """The members of `answer`, for people."""
    return Rendered(answer)


def _rows(item: Item, indent: str = "") -> Iterator[tuple[str, str]]:
    """Name and value of each member that is no table; an object that is too long for a line has a line a member."""
    for name, value in item.items():
        if value in ([], {}) or _is_table(value):
            continue
        shown = text(name, value)
        if isinstance(value, dict) and "name" not in value and (len(shown) > _INLINE or any(_tables(value))):
            inner = [*_rows(value, f"{indent}  ")]
            yield from [(f"{indent}{words(name)}", ""), *inner] if inner else []
        else:
            yield f"{indent}{words(name)}", shown


def _tables(item: Item, *above: str) -> Iterator[tuple[str, Sequence[Item]]]:
    """The tables of an answer and of the objects within, with their names."""
    for name, value in item.items():
        if _is_table(value):
            yield " ".join([*above, words(name)]), value
        elif isinstance(value, dict):
            yield from _tables(value, *above, words(name))


def words(name: str) -> str:
    """The name of a member in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def text(name: str, value: Any) -> str:
    """A value for people: times as such, other numbers grouped, apart from ids; objects by their names.

    Control codes are replaced.
    """
    match value:
        case None:
            return "-"
        case str():
            return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in value)
        case bool():
            return str(value)
        case int() if value in _TIMES and not _is_id(name):
            return f"{datetime.fromtimestamp(value / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        case int() if not _is_id(name):
            return f"{value:,}"
        case float():
            return f"{value:.3g}"
        case list():
            return ", ".join(text(name, item) for item in value)
        case dict():
            return str(value.get("name") or ", ".join(f"{words(key)} {text(key, each)}" for key, each in value.items()))
    return str(value)


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("Id")


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _table(name: str, items: Sequence[Item]) -> Table:
    columns = list(dict.fromkeys(column for item in items for column in item))
    ranked = next((column for column in columns if _is_ranking(column, [item.get(column) for item in items])), None)
    table = Table(box=None, pad_edge=False, title=name, title_justify="left", title_style="bold")
    for column in columns:
        number = isinstance(items[0].get(column), int | float) and not _is_id(column)
        table.add_column(words(column), justify="right" if number else "left")
        if column == ranked:
            table.add_column("")
    for item in items:
        table.add_row(
            *(cell for column in columns for cell in _cells(column, item, items[0] if column == ranked else None))
        )
    return table


def _cells(column: str, item: Item, first: Item | None) -> Iterator[RenderableType]:
    """The cell of `item` in a column; in a ranking with the first item `first`, also its bar."""
    yield Text(text(column, item.get(column)))
    if first:
        yield Bar(first[column], 0, item[column], width=_BAR_WIDTH)


def _is_ranking(column: str, values: Sequence[Any]) -> bool:
    """Whether numbers other than ids fall from the first to the last, and not all are the same."""
    if _is_id(column) or not all(isinstance(value, int | float) and value > 0 for value in values):
        return False
    return values[0] > values[-1] and all(before >= after for before, after in pairwise(values))
