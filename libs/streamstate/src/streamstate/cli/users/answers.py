"""Any answer of the API for people: values as rows, and each list of objects as a table, rankings with bars."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.bar import Bar
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_BAR_WIDTH = 12
Item = Mapping[str, Any]


def rendered(answer: Item) -> RenderableType:
    """The members of `answer`: values first, then lists of objects side by side where there is room."""
    tables = {name: value for name, value in answer.items() if _is_table(value)}
    values = {name: value for name, value in answer.items() if value != [] and name not in tables}
    rows = Table.grid(padding=(0, 2))
    for name, value in values.items():
        rows.add_row(Text(words(name), style="bold"), Text(text(name, value)))
    return Group(rows, "", Columns([_table(name, items) for name, items in tables.items()], padding=(1, 3)))


def words(name: str) -> str:
    """The name of a member in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def text(name: str, value: Any) -> str:
    """A value for people: numbers grouped, apart from ids; objects by their names. Control codes are replaced."""
    match value:
        case None:
            return "-"
        case str():
            return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in value)
        case bool():
            return str(value)
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
    table = Table(box=None, pad_edge=False, title=words(name), title_justify="left", title_style="bold")
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
