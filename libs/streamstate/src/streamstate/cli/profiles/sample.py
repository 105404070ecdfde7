"""The choice of keys whose records are folded, and the estimate for all keys. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from math import log, log2
from typing import NamedTuple
from zlib import crc32

MINUTE_MS = 60_000
_GIANT = 4
"""The part of the sample that a single key may take; keys with more records are not folded."""


@dataclass
class Census:
    """The records of read partitions: their number and the first timestamp by key, and their number by minute."""

    keys: Counter[bytes] = field(default_factory=Counter)
    first: dict[bytes, int] = field(default_factory=dict)
    minutes: Counter[int] = field(default_factory=Counter)

    def add(self, key: bytes, timestamp: int) -> None:
        """Count a record; its timestamp is in milliseconds."""
        self.keys[key] += 1
        self.first.setdefault(key, timestamp)
        self.minutes[timestamp // MINUTE_MS] += 1

    def span_ms(self, latest: int) -> int:
        """The time over which the records came, without the first thousandth, which may have wrong timestamps."""
        known = sorted(minute for minute in self.minutes if minute * MINUTE_MS <= latest)
        skipped = sum(self.minutes[minute] for minute in known) // 1_000
        for first in known:
            skipped -= self.minutes[first]
            if skipped < 0:
                return (known[-1] - first + 1) * MINUTE_MS
        return MINUTE_MS

    def key_growth(self, latest: int, growth: float) -> float:
        """How many times the keys grow in `growth` times the span: each doubling of the time adds fewer new keys.

        The growth in the last two doublings continues as a geometric series.
        """
        span = self.span_ms(latest)
        end = max((minute for minute in self.minutes if minute * MINUTE_MS <= latest), default=0) * MINUTE_MS
        known = [sum(first <= end - part * span for first in self.first.values()) for part in (0.75, 0.5, 0.0)]
        before, last = (log2(later / early) if early else 1.0 for early, later in pairwise(known))
        decay = min(1.0, last / before) if before else 1.0
        doublings, exponent = log2(growth), 0.0
        while doublings > 0:
            last *= decay
            exponent += last * min(1.0, doublings)
            doublings -= 1
        return float(min(growth, 2**exponent))


class Strata(NamedTuple):
    """Keys: all `busy` and `some` are folded; `some` stand for the `others`; the `giants` are too large."""

    busy: Set[bytes]
    some: Set[bytes]
    others: Sequence[bytes]
    giants: Sequence[bytes]


def strata(keys: Mapping[bytes, int], records: int) -> Strata:
    """A choice of keys with some `records` records together.

    Half of the records are of the keys with most records; the rest of every n-th of the other keys, in the order of
    their number of records.
    """
    ordered = sorted(keys, key=lambda key: (-keys[key], crc32(key)))
    limit = records if sum(keys.values()) <= records else records // _GIANT
    giants = [key for key in ordered if keys[key] > limit]
    busy: set[bytes] = set()
    left = min(records, sum(keys.values())) // 2
    for key in ordered[len(giants) : -1]:
        left -= keys[key]
        if left < 0:
            break
        busy.add(key)
    others = ordered[len(giants) + len(busy) :]
    step = max(1, round(sum(keys[key] for key in others) / max(1, records // 2)))
    some = others if sum(keys.values()) <= records else others[step // 2 :: step]
    return Strata(busy, set(some), others, giants)


class Bytes(NamedTuple):
    """The bytes of a state without windows, and of windows."""

    ever: float
    windows: float


class Folded(NamedTuple):
    """The folded keys of a stratum, their records, and the memory of their state."""

    keys: int
    records: int
    size: Bytes


class Total(NamedTuple):
    """All partitions: the records, the keys `others`, and the number of records of each of the giants."""

    records: int
    others: float
    others_records: float
    giants: Sequence[int]


@dataclass(frozen=True)
class Estimate:
    """The bytes of all keys, from folded strata: a key with n records has bytes as a power of n."""

    busy: Folded
    some: Folded
    total: Total

    def now(self) -> Bytes:
        """The present bytes."""
        return Bytes(*map(self._now, range(2)))

    def later(self, growth: float, key_growth: float) -> Bytes:
        """The bytes with `key_growth` times the keys and `growth` times the records."""
        a_key = growth / key_growth
        return Bytes(*(size * key_growth * a_key ** self._power(index) for index, size in enumerate(self.now())))

    def _now(self, index: int) -> float:
        busy, some, total = self.busy, self.some, self.total
        weight = total.others / some.keys if some.keys else 0.0
        folded = busy.size[index] + some.size[index] * weight
        records = busy.records + total.others_records
        large = busy if busy.keys else some
        each, mean = large.size[index] / max(1, large.keys), large.records / max(1, large.keys)
        power = self._power(index)
        giants = sum(each * float((number / mean) ** power) for number in total.giants)
        # The busy keys of the partitions that were not read.
        rest = total.records - records - sum(total.giants)
        return max(0.0, folded + giants + rest * (folded + giants) / max(1, records + sum(total.giants)))

    def _power(self, index: int) -> float:
        """The exponent of the bytes of a key by its records, 0 to 1."""
        busy, some = self.busy, self.some
        if not (busy.keys and some.keys and busy.size[index] and some.size[index]):
            return 1.0
        larger = busy.records / busy.keys / (some.records / some.keys)
        heavier = busy.size[index] / busy.keys / (some.size[index] / some.keys)
        return min(1.0, max(0.0, log(heavier) / log(larger))) if larger > 1 else 1.0


def partitions(sizes: Mapping[int, int], records: int) -> Sequence[int]:
    """The partitions to read for `records` records, those of the most typical size first; at least one."""
    mean = sum(sizes.values()) / len(sizes)
    chosen: list[int] = []
    for partition in sorted(sizes, key=lambda each: abs(sizes[each] - mean)):
        if sum(sizes[each] for each in chosen) < records:
            chosen.append(partition)
    return chosen
