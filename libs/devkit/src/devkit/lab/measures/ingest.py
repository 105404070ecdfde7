"""A backlog, folded from offset 0 to its end by the stream of metrics alone, and the size of its state."""

from collections.abc import Sequence

import redis

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab import cpu
from devkit.lab.targets import Report
from services.events import KINDS
from services.metrics.model import APP

_LONGEST_S = 900


def measure(cluster: LocalCluster, events: int, report: Report) -> None:
    """Fold the `events` of the topic into an empty state."""
    say("folding the events from offset 0")
    states, memory = cluster.states(APP.name), used_memory(cluster)
    marks: list[tuple[int, cpu.Usage]] = []

    def done() -> bool:
        folded = states.folded()
        if folded > (marks[-1][0] if marks else 0):
            marks.append((folded, meter.read()))
        return folded >= events

    with cluster.of_services([APP.name]) as streams:
        meter = cpu.Meter({"stream": streams.pid, "Redis": cluster.redis.pid})
        streams.wait_until(done, timeout=_LONGEST_S)
    held = used_memory(cluster) - memory
    report.figures["Streams"] |= rates(marks) | {"Redis, bytes a user / a (user, item) pair": size(cluster, held)}


def rates(marks: Sequence[tuple[int, cpu.Usage]]) -> dict[str, str]:
    """The rates of the whole, with the start of the processes, and of the second half.

    marks: the number of folded events, and the usage since the start, in the order of time.
    """
    folded, last = marks[-1]
    half, middle = next(mark for mark in marks if 2 * mark[0] >= folded)
    used, warm = sum(last.cpu.values()), sum(last.cpu.values()) - sum(middle.cpu.values())
    return {
        "ingest, events a CPU second, all / second half": f"{folded / used:,.0f} / {(folded - half) / warm:,.0f}",
        "ingest, events a second, all / second half": f"{folded / last.seconds:,.0f} / "
        f"{(folded - half) / (last.seconds - middle.seconds):,.0f}",
    }


def size(cluster: LocalCluster, used: int) -> str:
    """The `used` bytes of the state of metrics, by user and by distinct (user, item) pair over the three kinds."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        charts = list(client.scan_iter(match=f"{{{APP.name}:*}}:*.values:*", count=1_000))
        pipeline = client.pipeline(transaction=False)
        for chart in charts:
            pipeline.zrange(chart, -1, -1, withscores=True)
            pipeline.zcard(chart)
        found = iter(pipeline.execute())
        # A large compact ranking ends with the number of its members.
        pairs = sum(max(int(last), held) for ((_, last),), held in zip(found, found, strict=True))
    return f"{used / (len(charts) / len(KINDS)):,.0f} / {used / pairs:.1f}"


def used_memory(cluster: LocalCluster) -> int:
    """Bytes allocated by Redis."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        return int(client.info("memory")["used_memory"])
