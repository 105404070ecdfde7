"""The cost of access control and limits: the same read by two gateways in turn, with and without keys."""

import json
from dataclasses import replace
from pathlib import Path

from devkit.bench.reads import Read, Situation, measure, warm
from devkit.bench.report import BenchReport, Target
from devkit.child_process import LOCALHOST, free_port
from devkit.demo import say
from devkit.local_cluster import LocalCluster, answers
from streamstate.web.access import keys

PAIRS = 3
UNLIMITED = 10_000_000


def compare(cluster: LocalCluster, read: Read, folder: Path, report: BenchReport) -> None:
    """`read` is by the gateway of `cluster`; the other gateway has its limits in the Redis of the state."""
    say("a second gateway, with required keys")
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
        keyed = replace(read, name=f"{read.name}, with access", address=address, trees=trees, key=key)
        warm(keyed)
        pairs = [[measure(each, Situation(), report) for each in (read, keyed)] for _ in range(PAIRS)]
    cost = sum(with_key.total_ms for _, with_key in pairs) / sum(without.total_ms for without, _ in pairs)
    what = f"{read.name}: CPU with a key and limits over that without"
    report.targets.append(Target(what, cost, 1.15, unit="x", parts=pairs[-1][1].parts))
