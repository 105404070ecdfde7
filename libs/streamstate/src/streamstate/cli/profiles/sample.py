"""The choice of partitions and keys whose records are folded. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from zlib import crc32

MINUTE_MS = 60_000


@dataclass
class Census:
    """The records of read partitions: their number by key, and by minute."""

    keys: Counter[bytes] = field(default_factory=Counter)
    minutes: Counter[int] = field(default_factory=Counter)

    def add(self, key: bytes, timestamp: int) -> None:
        """Count a record; its timestamp is in milliseconds."""
        self.keys[key] += 1
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


def sampled(keys: Mapping[bytes, int], records: int) -> Set[bytes]:
    """Every n-th of `keys` in the order of their numbers of records, with about `records` records together."""
    step = max(1, round(sum(keys.values()) / records))
    ordered = sorted(keys, key=lambda key: (-keys[key], crc32(key)))
    return {*(ordered[min(step // 2, len(ordered) - 1) :: step])}


def partitions(sizes: Mapping[int, int], records: int) -> Sequence[int]:
    """The partitions to read for `records` records, those of the most typical size first; at least one."""
    mean = sum(sizes.values()) / len(sizes)
    chosen: list[int] = []
    for partition in sorted(sizes, key=lambda each: abs(sizes[each] - mean)):
        if sum(sizes[each] for each in chosen) < records:
            chosen.append(partition)
    return chosen
