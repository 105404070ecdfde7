"""The bounds of operations on a store in memory: what a key takes, and where the rest goes."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from streamstate.state.operations import Groups, IncrementScores, Merge


class Day(NamedTuple):
    """The lines of a day of a history, and the number of lines that were left out."""

    lines: str = ""
    left_out: int = 0


def bounded_merge(fields: Mapping[str, int], merge: Merge) -> Merge:
    """The operation as applied to a hash with these `fields`: without groups."""
    if not merge.groups:
        return merge
    add, least, most = dict(merge.add), dict(merge.least), dict(merge.most)
    for prefix, groups in merge.groups.items():
        held = {text for text in groups.texts if f"{prefix}:{text}" in fields}
        new, further = _admitted(held, fields.get(f"{prefix}#", 0), groups)
        add |= {f"{prefix}#": new} if new else {}
        for text in further:
            _move(add, f"{prefix}:{text}", prefix, int.__add__)
            _move(least, f"{prefix}:{text}", prefix, min)
            _move(most, f"{prefix}:{text}", prefix, max)
    return Merge(merge.key, add, least, most)


def _move(numbers: dict[str, int], name: str, other: str, merge: Callable[[int, int], int]) -> None:
    if (number := numbers.pop(name, None)) is not None:
        numbers[other] = merge(numbers[other], number) if other in numbers else number


def bounded_scores(scores: Mapping[str, int], increment: IncrementScores) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of the members that a ranking with these `scores` takes, and the field of the others."""
    if increment.bound is None:
        return increment.by, {}
    _, further = _admitted(scores, len(scores), increment.bound)
    by = {member: number for member, number in increment.by.items() if member not in further}
    return by, {increment.other: sum(increment.by[member] for member in further)} if further else {}


def _admitted(held: Mapping[str, int] | set[str], count: int, groups: Groups) -> tuple[int, set[str]]:
    """How many texts get a place beside the `held` texts of `count`, and the texts that get none."""
    new: set[str] = set()
    further: set[str] = set()
    for text in groups.texts:
        if text not in held and text not in new:
            (new if count + len(new) < groups.limit else further).add(text)
    return len(new), further


def with_lines(day: Day, lines: str, most_bytes: int) -> Day:
    """The day with the `lines` that fit into so many bytes; the others are counted."""
    size = len(day.lines.encode())
    if size + len(lines.encode()) <= most_bytes:
        return day._replace(lines=day.lines + lines)
    kept, left_out = [day.lines], day.left_out
    for line in lines.splitlines(keepends=True):
        if size + len(line.encode()) <= most_bytes:
            size += len(line.encode())
            kept.append(line)
        else:
            left_out += 1
    return Day("".join(kept), left_out)
