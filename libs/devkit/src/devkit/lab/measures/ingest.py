"""A backlog, folded from offset 0 to its end by the stream of metrics alone, and the size of its state."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab import cpu
from devkit.lab.targets import Report
from services.events import KINDS
from services.metrics.model import APP

_LONGEST_S = 1_800
_LOOK_S = 0.2


@dataclass(frozen=True)
class Folded:
    """A backlog that a stream has folded.

    marks: the number of folded events, and the usage since the start, in the order of time. memory: of the stream,
    peak bytes.
    """

    marks: Sequence[tuple[int, cpu.Usage]]
    memory: int

    def rates(self) -> tuple[float, float]:
        """Events a CPU second of stream and Redis, with the start of the processes, and in the second half."""
        half, middle, folded, last = self._halves()
        used, before = sum(last.cpu.values()), sum(middle.cpu.values())
        return folded / used, (folded - half) / (used - before)

    def speeds(self) -> tuple[float, float]:
        """Events a second, with the start of the processes, and in the second half."""
        half, middle, folded, last = self._halves()
        return folded / last.seconds, (folded - half) / (last.seconds - middle.seconds)

    def _halves(self) -> tuple[int, cpu.Usage, int, cpu.Usage]:
        folded, last = self.marks[-1]
        half, middle = next(mark for mark in self.marks if 2 * mark[0] >= folded)
        return half, middle, folded, last


def fold(cluster: LocalCluster, events: int, **settings: str) -> Folded:
    """Fold the `events` of the topic into an empty state, by the stream of metrics alone with further `settings`."""
    states, memory = cluster.states(APP.name), [0]
    marks: list[tuple[int, cpu.Usage]] = []

    def done() -> bool:
        if (folded := states.folded()) > (marks[-1][0] if marks else 0):
            marks.append((folded, meter.read()))
        # Requests without pause take CPU time from the stream.
        time.sleep(_LOOK_S)
        memory.append(cpu.resident(stream.pid))
        return folded >= events

    with cluster.of_services([APP.name], **settings) as stream:
        meter = cpu.Meter({"stream": stream.pid, "Redis": cluster.redis.pid})
        stream.wait_until(done, _LONGEST_S)
    say(f"{events:,} events: {marks[-1][1]}")
    return Folded(marks, max(memory))


def measure(cluster: LocalCluster, events: int, report: Report) -> None:
    """Fold the `events` of the topic from offset 0."""
    say("folding the events from offset 0")
    before = used_memory(cluster)
    folded = fold(cluster, events)
    rates = {"events a CPU second": folded.rates(), "events a second": folded.speeds()}
    report.figures["Streams"] |= {
        **{
            f"ingest, {what}, all / second half": f"{whole:,.0f} / {half:,.0f}" for what, (whole, half) in rates.items()
        },
        "Redis, bytes a user / a (user, item) pair": size(cluster, used_memory(cluster) - before),
    }


def size(cluster: LocalCluster, used: int) -> str:
    """The `used` bytes of the state of metrics, by user and by distinct (user, item) pair over the three kinds."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        charts = list(client.scan_iter(match=f"{{{APP.name}:*}}:*.values:*", count=1_000))
        pipeline = client.pipeline(transaction=False)
        for chart in charts:
            pipeline.zrange(chart, -1, -1, withscores=True)
            pipeline.zcard(chart)
        replies = iter(pipeline.execute())
        # A large compact ranking ends with the number of its members.
        pairs = sum(max(int(last), members) for ((_, last),), members in zip(replies, replies, strict=True))
    return f"{used / (len(charts) / len(KINDS)):,.0f} / {used / pairs:.1f}"


def used_memory(cluster: LocalCluster) -> int:
    """Bytes allocated by Redis."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        return int(client.info("memory")["used_memory"])
