"""What access and limits cost: the same read by two gateways in turn, one of which wants a key."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devkit.bench.read_load import FEW, Measured, Read, ReadLoad, Situation
from devkit.child_process import LOCALHOST, free_port
from devkit.local_cluster import LocalCluster, answers
from streamstate.access import keys

PAIRS = 3
UNLIMITED = 10_000_000


@dataclass(frozen=True)
class AccessCost:
    """A read without and with a key, of each pair."""

    pairs: Sequence[tuple[Measured, Measured]]

    @property
    def cost(self) -> float:
        """CPU of a read with access over that of one without, of all processes."""
        return sum(guarded.total_ms for _, guarded in self.pairs) / sum(open_.total_ms for open_, _ in self.pairs)


def measure(cluster: LocalCluster, reader: ReadLoad, read: Read, folder: Path) -> AccessCost:
    """`read` is by the gateway of `cluster`; the other one has its limits in the Redis of the state."""
    key, file, address = keys.generate(), folder / "keys", f"{LOCALHOST}:{free_port()}"
    allowed = {"scopes": ["read"], "requests_per_s": UNLIMITED, "cost_per_s": UNLIMITED}
    file.write_text(json.dumps({"name": "bench", "sha256": keys.digest(key), **allowed}))
    (folder / "tokens").write_text(keys.generate())
    guarded = cluster.further_gateway(
        address,
        ACCESS="required",
        ACCESS_KEYS=str(file),
        INTERNAL_TOKENS=str(folder / "tokens"),
        LIMITS_REDIS=cluster.redis.url,
    )
    with guarded:
        guarded.wait_until(lambda: answers(f"http://{address}/readyz"), timeout=60)
        trees = {**read.trees, "gateway": guarded.pid}
        asked = replace(read, name=f"{read.name}, with access", address=address, trees=trees, key=key)
        reader.warm(asked)
        at_rest = Situation(FEW)
        return AccessCost([(reader.peak(read, at_rest), reader.peak(asked, at_rest)) for _ in range(PAIRS)])
