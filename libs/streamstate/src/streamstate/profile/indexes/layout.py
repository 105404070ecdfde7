"""Where indexes are: rankings of keys by value, in shards. Pure."""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import Measure, TrailingWindow

SHARDS = 64
"""The shards of an index: an answer in the order of shards and keys reads whole shards."""

LEAST_PERIOD_MS = AHEAD_MS = 3_600_000
"""The least length of a period. The present may be so far behind the stream time."""

INDEX, TIME = "index", "time"
"""The hash with the stream time (`TIME`), and the prefix of all indexes."""


class Index(NamedTuple):
    """The keys by the value of a measure: without a window by the value itself.

    Over a window, the keys by the sum of the positive values in each *period*. A period is as long as the window, or
    longer: a window is within two periods, so in one of the two a key has half of the window's value at least.

    name: in a condition.
    """

    name: str
    measure: Measure
    window: TrailingWindow | None

    @property
    def period_ms(self) -> int:
        return max(self.window.ms, LEAST_PERIOD_MS) if self.window else 0

    def first_period(self, time: int) -> int:
        """The first period that a window may contain, given the stream time."""
        assert self.window is not None
        return max(0, time - AHEAD_MS - self.window.ms) // self.period_ms

    def key(self, shard: int, period: int | None = None) -> str:
        """The state key of a shard, over a window in a period."""
        return f"{INDEX}:{self.name}/{shard}" + ("" if period is None else f"/{period}")


def shard_of(key: str) -> int:
    return crc32(key.encode()) % SHARDS


def indexes_of(declared: Declaration) -> Sequence[Index]:
    """The indexes by measure and window."""
    windows = {window.label: window for window in declared.windows}
    return [
        Index(name, measure, windows.get(label))
        for measure in declared.resolved
        for label, name in measure.index_names.items()
    ]
