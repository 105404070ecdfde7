"""The timelines and histories of a store in memory, and the families with an expiry time."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

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
class Family:
    """The keys of its timelines or histories, and the time before which their entries are expired (None: no entry)."""

    timelines: set[str] = field(default_factory=set)
    expired: int | None = None

    def expire(self, before: int) -> None:
        self.expired = before if self.expired is None else max(self.expired, before)


def apply(
    keys: dict[str, Any], operation: Insert | AppendLines | Remove | DeleteTimeline | ExpireBefore | ExpireDays
) -> None:
    """Apply `operation` to the keys of a partition."""
    kept: Family = keys.setdefault(operation.family, Family())
    match operation:
        case Insert(family, name, entries, instead):
            key = f"{family}:{name}"
            kept.timelines.add(key)
            gone = set(entries.values()) if instead else set()
            keys[key] = {text: at for text, at in keys.get(key, {}).items() if at not in gone} | entries
        case AppendLines(family, name, days):
            key = f"{family}:{name}"
            kept.timelines.add(key)
            held = keys.get(key, {})
            keys[key] = held | {int(day): held.get(int(day), "") + lines for day, lines in days.items()}
            if kept.expired is not None:
                apply(keys, ExpireDays(family, kept.expired))
        case Remove(family, name, text):
            keys.get(f"{family}:{name}", {}).pop(text, None)
        case DeleteTimeline(family, name):
            kept.timelines.discard(f"{family}:{name}")
            keys.pop(f"{family}:{name}", None)
        case ExpireBefore(_, before):
            kept.expire(before)
            for key in kept.timelines:
                keys[key] = {text: at for text, at in keys.get(key, {}).items() if at >= before}
        case ExpireDays(_, before):
            kept.expire(before)
            for key in kept.timelines:
                keys[key] = {day: lines for day, lines in keys.get(key, {}).items() if day * DAY_MS >= before}


def history(keys: dict[str, Any], read: HistoryDays) -> tuple[int, dict[int, str]]:
    """The answer to `read`."""
    family = keys.get(read.family)
    return (family.expired if family else None) or 0, dict(keys.get(read.key, {}))


def between(keys: dict[str, Any], read: Between) -> list[tuple[str, int]]:
    """The answer to `read`."""
    first = max(read.start, *_expired(keys, read.key))
    entries = sorted(keys.get(read.key, {}).items(), key=by_time, reverse=read.descending)
    page = [entry for entry in entries if first <= entry[1] < read.end][read.skip : read.skip + read.n]
    before = itertools.accumulate((len(text.encode()) for text, _ in page), initial=0)
    return [entry for entry, size in zip(page, before, strict=False) if size < read.most_bytes]


def by_time(item: tuple[str, int]) -> tuple[int, bytes]:
    """The order of entries."""
    return item[1], item[0].encode()


def _expired(keys: dict[str, Any], timeline: str) -> Iterator[float]:
    """The expiry time of each family that `timeline` may belong to."""
    names = timeline.split(":")
    for count in range(len(names)):
        family = keys.get(":".join(names[:count]))
        yield -math.inf if not isinstance(family, Family) or family.expired is None else family.expired
