"""A backlog, folded from offset 0 to its end by the stream of metrics alone."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import redis
from urllib3.exceptions import HTTPError

from devkit.bench import cpu
from devkit.local_cluster import LocalCluster
from services.events import KINDS, LISTENING_EVENTS
from services.metrics.model import APP
from streamstate import bootstrap

_LONGEST_S = 900


@dataclass(frozen=True)
class Ingest:
    """Events a CPU second of stream and state: all of them with the start of the processes, and the second half.

    `per_second` is wall time: of all, and of the second half (None: not told). `parts`: CPU seconds of all, by what
    they were for.
    """

    whole: float
    warm: float
    per_second: float
    warm_per_second: float | None
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Size:
    """Bytes in Redis."""

    user: float
    pair: float
    """Of each distinct (user, item) over the three kinds."""


@dataclass(frozen=True)
class Mark:
    """So many events were folded at `at` (monotonic seconds), with so many CPU seconds of the stream and of Redis."""

    at: float
    stream: float
    redis: float
    folded: int

    @property
    def cpu(self) -> float:
        return self.stream + self.redis


def measure(cluster: LocalCluster, events: int) -> Ingest:
    """`events` are in the topic, and nothing is stored."""
    store = bootstrap.store(cluster.redis.url, 60, APP.name)
    partitions = bootstrap.topics(cluster.settings.kafka, cluster.settings.security).partitions(LISTENING_EVENTS)
    streams = cluster.of_services([APP.name])
    started, before = time.monotonic(), cpu.seconds(cluster.redis.pid)
    marks = [Mark(started, 0.0, 0.0, 0)]

    def done() -> bool:
        snapshots = store.read({partition: [] for partition in range(partitions)}).values()
        folded = sum(sum(snapshot.positions.values()) for snapshot in snapshots)
        if folded > marks[-1].folded:
            used = cpu.seconds(streams.pid), cpu.seconds(cluster.redis.pid) - before
            marks.append(Mark(time.monotonic(), *used, folded))
        return folded >= events

    with streams:
        streams.wait_until(done, timeout=_LONGEST_S)
    return rates(marks)


def rates(marks: Sequence[Mark]) -> Ingest:
    """From marks in the order of time, the first of them before the processes were started."""
    first, started, last = marks[0], marks[1], marks[-1]
    middle = next(mark for mark in marks if 2 * mark.folded >= last.folded)
    rest = last.folded - middle.folded
    return Ingest(
        whole=last.folded / last.cpu,
        warm=rest / (last.cpu - middle.cpu),
        per_second=last.folded / (last.at - first.at),
        warm_per_second=rest / (last.at - middle.at),
        parts={
            "until the first commit": started.cpu,
            "then in the stream": last.stream - started.stream,
            "then in Redis": last.redis - started.redis,
        },
    )


def size(cluster: LocalCluster, bytes_before: int) -> Size:
    """What the state of metrics takes beyond `bytes_before`."""
    held = used_memory(cluster) - bytes_before
    with redis.Redis.from_url(cluster.redis.url) as client:
        charts = list(client.scan_iter(match=f"{{{APP.name}:*}}:user:*:*", count=1_000))
        pipeline = client.pipeline(transaction=False)
        for chart in charts:
            pipeline.zcard(chart)
        pairs = sum(pipeline.execute())
    return Size(held / (len(charts) / len(KINDS)), held / pairs)


def used_memory(cluster: LocalCluster) -> int:
    """Bytes that Redis has allocated."""
    with redis.Redis.from_url(cluster.redis.url) as client:
        return int(client.info("memory")["used_memory"])


def caught_up(cluster: LocalCluster, *services: str) -> bool:
    """Whether the states have reached the ends of their topics; not while an instance is too busy to tell.

    Waits a second first: to ask without pause takes from the streams what they need.
    """
    time.sleep(1)
    try:
        return cluster.behind(*services) == 0
    except HTTPError:
        return False
