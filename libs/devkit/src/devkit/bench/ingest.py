"""A backlog, folded from offset 0 to its end by the stream of metrics alone, and the size of its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import redis

from devkit.bench import cpu
from devkit.bench.report import BenchReport, Target
from devkit.demo import say
from devkit.local_cluster import LocalCluster
from services.events import KINDS, LISTENING_EVENTS
from services.metrics.model import APP
from streamstate import bootstrap

_LONGEST_S = 900


@dataclass(frozen=True)
class Ingest:
    """Events a CPU second of stream and state: `whole` with the start of the processes, `warm` in the second half.

    per_second: wall time, as text. parts: CPU seconds by purpose.
    """

    whole: float
    warm: float
    per_second: str
    parts: Mapping[str, float] = field(default_factory=dict)

    def tell(self, report: BenchReport, who: str = "") -> None:
        """Add the rows, with the prefix `who`."""
        whole, warm = f"{self.whole:,.0f}", f"{self.warm:,.0f}"
        rates = {"ingest, events a CPU second, all / second half": f"{whole} / {warm}"}
        rates["ingest, events a second"] = self.per_second
        report.sections["Streams"].update({f"{who}{what}": figure for what, figure in rates.items()})

    def compare(self, theirs: "Ingest", report: BenchReport) -> None:
        """Add the targets, relative to the ingest of Kafka Streams."""
        what, warm, whole = "ingest, events a CPU second over Kafka Streams'", "second half", "all, with our start-up"
        for name, value, limit, goal in (
            (warm, self.warm / theirs.warm, 2.2, 2.7),
            (whole, self.whole / theirs.whole, 1.3, 2),
        ):
            report.targets.append(Target(f"{what}: {name}", value, limit, goal, "x", at_least=True, parts=self.parts))


def measure(cluster: LocalCluster, events: int, report: BenchReport) -> Ingest:
    """Fold the `events` of the topic into an empty state."""
    say("folding the events from offset 0")
    store, memory = bootstrap.store(cluster.redis.url, 60, APP.name), used_memory(cluster)
    partitions = bootstrap.topics(cluster.settings.kafka, cluster.settings.security).partitions(LISTENING_EVENTS)
    marks = [(0, cpu.NONE)]

    def done() -> bool:
        snapshots = store.read({partition: [] for partition in range(partitions)}).values()
        folded = sum(sum(snapshot.positions.values()) for snapshot in snapshots)
        if folded > marks[-1][0]:
            marks.append((folded, meter.read()))
        return folded >= events

    with cluster.of_services([APP.name]) as streams:
        meter = cpu.Meter({"stream": streams.pid, "Redis": cluster.redis.pid})
        streams.wait_until(done, timeout=_LONGEST_S)
    ingest = rates(marks[1:])
    ingest.tell(report)
    held = used_memory(cluster) - memory
    report.sections["Streams"].update({"Redis, bytes a user / a (user, item) pair": size(cluster, held)})
    return ingest


def rates(marks: Sequence[tuple[int, cpu.Usage]]) -> Ingest:
    """The rates from marks in the order of time: folded events, and the usage since the start of the processes."""
    (_, started), (folded, last) = marks[0], marks[-1]
    half, middle = next(mark for mark in marks if 2 * mark[0] >= folded)
    used, seconds = sum(last.cpu.values()), last.seconds - middle.seconds
    return Ingest(
        whole=folded / used,
        warm=(folded - half) / (used - sum(middle.cpu.values())),
        per_second=f"{folded / last.seconds:,.0f}, second half {(folded - half) / seconds:,.0f}",
        parts={
            "until the first commit": sum(started.cpu.values()),
            **{f"then in {name}": last.cpu[name] - started.cpu[name] for name in last.cpu},
        },
    )


def size(cluster: LocalCluster, held: int) -> str:
    """The `held` bytes of the state of metrics, by user and by distinct (user, item) pair over the three kinds."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        charts = list(client.scan_iter(match=f"{{{APP.name}:*}}:*.values:*", count=1_000))
        pipeline = client.pipeline(transaction=False)
        for chart in charts:
            pipeline.zcard(chart)
        pairs = sum(pipeline.execute())
    return f"{held / (len(charts) / len(KINDS)):,.0f} / {held / pairs:.1f}"


def used_memory(cluster: LocalCluster) -> int:
    """Bytes allocated by Redis."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        return int(client.info("memory")["used_memory"])
