"""A store in memory that knows how each of its keys is read, and comparable answers of its reads."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import structs

from streamstate.state.memory import MemoryStore, reading, timelines
from streamstate.state.memory.bounds import Day
from streamstate.state.operations import (
    BEST,
    DAY_MS,
    MOST,
    Append,
    AppendLines,
    Between,
    Fields,
    HistoryDays,
    IncrementScores,
    Insert,
    Members,
    Merge,
    Newest,
    Operation,
    PushRecent,
    Put,
    Read,
    Since,
    Top,
    UpdateIndex,
    Value,
)
from streamstate.state.store import Commit
from streamstate.verify.difference import unequal

ALL = 2**31 - 1


class Readable(NamedTuple):
    """The reads of a key that together show all of its value.

    family: of a timeline or history. names: whether the key holds the names of a family. keep: of a log, how many
    numbers before the last are kept.
    """

    reads: tuple[Read, ...]
    family: str = ""
    names: bool = False
    keep: int = 0


class ReadableStore(MemoryStore):
    """Keeps, by partition, `readable`: how the keys are read that an operation has written. Logs are not trimmed."""

    def __init__(self) -> None:
        super().__init__()
        self.readable: defaultdict[int, dict[str, Readable]] = defaultdict(dict)

    def commit(self, *commits: Commit, dry_run: bool = False) -> None:
        if not dry_run:
            for commit in commits:
                self._note(self.readable[commit.claim.partition], commit.operations)
        super().commit(*map(_untrimmed, commits), dry_run=dry_run)

    def _note(self, readable: dict[str, Readable], operations: Sequence[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, Insert | AppendLines):
                key, family = f"{operation.family}:{operation.key}", operation.family
                readable.setdefault(family, Readable((Newest(family, ALL),), family, names=True))
                if key not in readable:
                    history = isinstance(operation, AppendLines)
                    read = HistoryDays(family, operation.key) if history else Between(key, 0)
                    readable[key] = Readable((read,), family)
                continue
            if isinstance(operation, IncrementScores) and operation.bound:
                readable.setdefault(operation.hash, Readable((Fields(operation.hash),)))
            if (made := _readable(operation)) and (key := made.reads[0].key) not in readable:
                readable[key] = made


def _untrimmed(commit: Commit) -> Commit:
    if not any(isinstance(operation, Append) for operation in commit.operations):
        return commit
    kept = [structs.replace(each, keep=MOST) if isinstance(each, Append) else each for each in commit.operations]
    return replace(commit, operations=kept)


def _readable(operation: Operation) -> Readable | None:
    match operation:
        case Put(key):
            return Readable((Value(key),))
        case Merge(key):
            return Readable((Fields(key),))
        case IncrementScores(key, compact=True):
            return Readable((Top(key, ALL, compact=True), Top(key, BEST)))
        case IncrementScores(key):
            return Readable((Top(key, ALL),))
        case UpdateIndex(key, add) if add:
            return Readable((Members(key, "", "", ALL),))
        case PushRecent(key):
            return Readable((Newest(key, ALL),))
        case Append(key, keep=keep):
            return Readable((Since(key, 0, ALL),), keep=keep)
        case _:
            return None


def answer(keys: Mapping[str, Any], read: Read) -> Any:
    """The answer of the keys of a store in memory; of a family, the first times of its timelines by name."""
    if isinstance(family := keys.get(read.key), timelines.Family):
        firsts = ((key.removeprefix(f"{read.key}:"), _first(keys, key)) for key in family.timelines)
        return [(name, first) for name, first in firsts if first is not None]
    return reading.answer(keys, read)


def _first(keys: Mapping[str, Any], key: str) -> int | None:
    """The time of the first entry of a timeline or history; None without an entry."""
    held = keys.get(key, {})
    days = any(isinstance(lines, Day) for lines in held.values())
    return min((day * DAY_MS for day in held) if days else held.values(), default=None)


def unexpired(read: Read, value: Any, begin: int) -> Any:
    """A value of `read` without the entries before the time `begin`."""
    match read:
        case Between():
            return [(text, time) for text, time in value if time >= begin]
        case HistoryDays():
            return [{day: held for day, held in of.items() if day * DAY_MS >= begin} for of in value[1:]]
        case _:
            return value


def lacking(family: Sequence[tuple[str, int]], stored: Sequence[tuple[str, int]], begin: int) -> dict[str, int]:
    """The timelines of `family` with a first time from `begin` on that `stored` lacks, or has with a later time.

    Such a timeline would never expire, or too late.
    """
    times = dict(stored)
    return {name: first for name, first in family if first >= begin and times.get(name, math.inf) > first}


def total(read: Read, value: Any) -> Any:
    """The sum of all numbers of a hash or ranking; None for another value."""
    match read:
        case Fields():
            return sum(value.values())
        case Top():
            return sum(score for _, score in value)
        case _:
            return None


Entries = Sequence[tuple[int, bytes]]


def wrong_log(ours: Entries, stored: Entries, keep: int, unpack: Callable[[bytes], Sequence[Any]]) -> str | None:
    """The difference of a stored log, whose entries may have other numbers of records than ours.

    ours: all entries. keep: how many numbers before the last the stored log has. unpack: as of
    `Fold.entries`.
    """
    try:
        found = [record for _, text in stored for record in unpack(text)]
    except ValueError as error:
        return f"an entry cannot be read: {error}"
    least, before, begin = 0, 0, (stored[-1][0] if stored else 0) - keep
    expected: list[Any] = []
    for number, text in ours:
        records = unpack(text)
        expected += records
        least += len(records) if before >= begin else 0
        before = number
    if not least <= len(found) <= len(expected):
        return f"expected {least} to {len(expected)} records, found {len(found)}"
    if stored and stored[0][0] <= begin:
        return f"the log begins at {stored[0][0]}, and keeps the entries after {begin}"
    return unequal(expected[len(expected) - len(found) :], found)
