"""What watchers saw, and what others saw of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

WATCHERS = 1_000


@dataclass
class Watching:
    """Milliseconds, cores by process, and bytes of the gateway.

    behind_ms, after_kill_ms: of each event behind its commit, with all owners and with one that is killed; infinite for
        one that was never heard of.
    alone_ms, beside_ms: p99 of reads without watchers and with them, pair by pair.
    differing: watchers whose last event is not the read. ended: streams that ended by themselves.
    memory: with the first watchers, and with the last ones.
    alone_cores, beside_cores: without watchers and with them; the clients' own are called "watchers".
    """

    behind_ms: list[float] = field(default_factory=list)
    after_kill_ms: list[float] = field(default_factory=list)
    alone_ms: list[float] = field(default_factory=list)
    beside_ms: list[float] = field(default_factory=list)
    differing: int = 0
    ended: int = 0
    memory: list[int] = field(default_factory=list)
    alone_cores: Mapping[str, float] = field(default_factory=dict)
    beside_cores: Mapping[str, float] = field(default_factory=dict)

    @property
    def slowed(self) -> float:
        """The p99 of reads with watchers over that without."""
        return median(self.beside_ms) / median(self.alone_ms)

    @property
    def lost(self) -> int:
        """Events that were never heard of, watchers whose last event is not the read, and streams that ended."""
        return sum(map(math.isinf, (*self.behind_ms, *self.after_kill_ms))) + self.differing + self.ended

    @property
    def growth(self) -> float:
        """Memory at the end over that at the beginning."""
        return self.memory[-1] / self.memory[0]


def percentile(values: Sequence[float], share: int) -> float:
    """Of values that may be infinite."""
    return float(np.percentile(values, share, method="nearest"))
