"""The pace of a build beside readers of the same Redis: small commits, each when its turn has come."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamstate.errors import Fenced
from streamstate.processing.limits import CommitLimit
from streamstate.state.store import Claim, Store

LOOK_S = 1.0
"""Seconds between two looks at the rates in the state."""


@dataclass
class Pace:
    """The rates of builds, in records a second of each partition: the operator's in the state, else `configured`.

    Without a rate (None), a build has no pace. claims: of the partitions.
    """

    store: Store
    claims: Mapping[int, Claim]
    configured: float | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _rates: dict[int, float | None] = field(default_factory=dict)
    _looked: float = -LOOK_S
    _last: dict[int, tuple[float, int]] = field(default_factory=dict)

    def limit(self, partition: int, building: CommitLimit, ready: CommitLimit) -> CommitLimit:
        """The limit of a build's next commit: with a rate, as of a ready state, and the records of a second."""
        rate = self._rate(partition)
        return building if rate is None else ready._replace(records=max(1, min(ready.records, int(rate))))

    def turn(self, records: Mapping[int, int]) -> None:
        """Return when builds may commit `records`, by partition. Raises `Fenced` for a partition of another process."""
        while (pause := max(map(self._pause, records), default=0.0)) > 0:
            self.sleep(min(pause, LOOK_S))
        now = self.clock()
        self._last |= {partition: (now, count) for partition, count in records.items()}

    def _pause(self, partition: int) -> float:
        """Seconds until the last commit's records are over at the rate; the rate may change meanwhile."""
        rate = self._rate(partition)
        if not rate:
            return 0.0 if rate is None else LOOK_S
        committed, count = self._last.get(partition, (0.0, 0))
        return committed + count / rate - self.clock()

    def _rate(self, partition: int) -> float | None:
        if self.clock() - self._looked >= LOOK_S:
            snapshots = self.store.read(dict.fromkeys(self.claims, ()))
            for claimed, snapshot in snapshots.items():
                if snapshot.epoch != self.claims[claimed].epoch:
                    msg = f"partition {claimed} is claimed by another process during its build"
                    raise Fenced(msg)
            self._rates = {p: self.configured if s.rate is None else s.rate for p, s in snapshots.items()}
            self._looked = self.clock()
        return self._rates[partition]
