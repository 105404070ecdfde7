"""The logs, timelines and histories of a store in memory, and the families with an expiry time."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamstate.state.memory.bounds import Day, with_lines
from streamstate.state.operations import (
    DAY_MS,
    AppendLines,
    Between,
    DeleteTimeline,
    ExpireBefore,
    ExpireDays,
    HistoryDays,
    Insert,
    Remove,
)


@dataclass
class Log:
    """The last number of a log, and its kept entries."""

    last: int = 0
    entries: dict[int, bytes] = field(default_factory=dict)

    def append(self, number: int, text: bytes, keep: int) -> None:
        if number > self.last:
            self.last = number
            self.entries = {n: kept for n, kept in self.entries.items() if n > number - keep} | {number: text}


@dataclass
class Family:
    """The keys of its timelines or histories, and the time before which their entries are expired (None: no entry).

    Each key has a lower bound of the times of its entries (milliseconds).
    """

    timelines: dict[str, float] = field(default_factory=dict)
    expired: int | None = None

    def add(self, key: str, times: Iterable[int]) -> None:
        """Note that `key` gets entries of these times."""
        self.timelines[key] = min([self.timelines.get(key, math.inf), *times])

    def expire(self, before: int) -> Sequence[str]:
        """Expire entries before `before`; returns the keys with such entries. Their bounds have to be added again."""
        self.expired = before if self.expired is None else max(self.expired, before)
        outdated = [key for key, first in self.timelines.items() if first < before]
        self.timelines |= dict.fromkeys(outdated, math.inf)
        return outdated


def apply(
    keys: dict[str, Any], operation: Insert | AppendLines | Remove | DeleteTimeline | ExpireBefore | ExpireDays
) -> None:
    kept: Family = keys.setdefault(operation.family, Family())
    match operation:
        case Insert(family, name, entries, instead):
            key = f"{family}:{name}"
            kept.add(key, entries.values())
            gone = set(entries.values()) if instead else set()
            keys[key] = {text: at for text, at in keys.get(key, {}).items() if at not in gone} | entries
        case AppendLines(family, name, days):
            key = f"{family}:{name}"
            kept.add(key, (int(day) * DAY_MS for day in days))
            held = keys.get(key, {})
            kept_days = {int(day): lines for day, lines in days.items() if int(day) * DAY_MS >= (kept.expired or 0)}
            most = operation.most_bytes
            keys[key] = held | {d: with_lines(held.get(d, Day()), lines, most) for d, lines in kept_days.items()}
        case Remove(family, name, text):
            keys.get(f"{family}:{name}", {}).pop(text, None)
        case DeleteTimeline(family, name):
            kept.timelines.pop(f"{family}:{name}", None)
            keys.pop(f"{family}:{name}", None)
        case ExpireBefore(_, before):
            for key in kept.expire(before):
                keys[key] = {text: at for text, at in keys.get(key, {}).items() if at >= before}
                kept.add(key, keys[key].values())
        case ExpireDays(_, before):
            for key in kept.expire(before):
                keys[key] = {day: lines for day, lines in keys.get(key, {}).items() if day * DAY_MS >= before}
                kept.add(key, (day * DAY_MS for day in keys[key]))


def history(keys: Mapping[str, Any], read: HistoryDays) -> tuple[int, dict[int, str], dict[int, int]]:
    family, days = keys.get(read.family), keys.get(read.key, {})
    left_out = {day: held.left_out for day, held in days.items() if held.left_out}
    return (family.expired if family else None) or 0, {day: held.lines for day, held in days.items()}, left_out


def between(keys: Mapping[str, Any], read: Between) -> list[tuple[str, int]]:
    first = max(read.start, expired(keys, read.key))
    entries = sorted(keys.get(read.key, {}).items(), key=by_time, reverse=read.descending)
    page = [entry for entry in entries if first <= entry[1] < read.end][read.skip : read.skip + read.n]
    before = itertools.accumulate((len(text.encode()) for text, _ in page), initial=0)
    return [entry for entry, size in zip(page, before, strict=False) if size < read.most_bytes]


def by_time(item: tuple[str, int]) -> tuple[int, bytes]:
    """The order of entries."""
    return item[1], item[0].encode()


def expired(keys: Mapping[str, Any], timeline: str) -> float:
    """The greatest expiry time of the families that `timeline` may belong to."""
    names = timeline.split(":")
    families = (keys.get(":".join(names[:count])) for count in range(1, len(names)))
    times = (family.expired for family in families if isinstance(family, Family) and family.expired is not None)
    return max(times, default=-math.inf)
