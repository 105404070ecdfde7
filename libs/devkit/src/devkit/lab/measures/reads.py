"""Reads over HTTP, without and with events: the rate, the latency, and the CPU time of each process for a read."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab import cpu, wrk
from devkit.lab.measures import recommendations
from devkit.lab.plays import RATE
from devkit.lab.targets import Report, Target
from devkit.servers.child_process import Child

OWNER, GATEWAY, COMBINED = "owner profile", "profile with names", "combined answer"
WALKED = f"{COMBINED}, new walks"
PROFILE, USER = "/v1/users/{user}/metrics", "/v1/users/{user}"
STREAMS = "streams"
"""The process tree of the streams: its CPU is shown, but is not part of the cost of a read."""

FEW, MANY = 16, 256
READ_S, PACED_S, WARM_S = 8, 15, 20
DRAINED_S = 5
"""Until the servers have ended the requests that a flood leaves, which delay the next requests by 0.1 s."""
KAFKA_STREAMS_RISE_MS = 15.6
"""The rise of p99 by the same events in Kafka Streams (docs/bench.md)."""
RISES_MS = {OWNER: KAFKA_STREAMS_RISE_MS, GATEWAY: 25, COMBINED: 60}


@dataclass(frozen=True)
class Read:
    """A request for one path after another; `trees` are the processes behind the answer."""

    name: str
    address: str
    paths: Sequence[str]
    trees: Mapping[str, int]


@dataclass(frozen=True)
class Measured:
    """The answers to a read at a `rate`, as in `ask`, and the usage meanwhile."""

    read: str
    rate: float
    answers: wrk.LoadResult
    usage: cpu.Usage

    @property
    def parts(self) -> dict[str, float]:
        """CPU milliseconds a request by process, without the streams, whose work is independent of reads."""
        return {name: ms for name, ms in self._all_parts.items() if name != STREAMS}

    @property
    def total_ms(self) -> float:
        """CPU milliseconds a request of all processes but the streams."""
        return sum(self.parts.values())

    @property
    def processes(self) -> str:
        """CPU milliseconds a request by process, from 1 % on."""
        return ", ".join(f"{name} {ms:.3f}" for name, ms in self._all_parts.items() if ms >= 0.01 * self.total_ms)

    @property
    def _all_parts(self) -> dict[str, float]:
        return {name: 1000 * seconds / self.answers.requests for name, seconds in self.usage.cpu.items()}

    @property
    def per_second(self) -> str:
        """Answers a second, with the number of refused and failed requests."""
        counts = {"refused": self.answers.refused, "failed": self.answers.failures}
        missing = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
        return f"{self.answers.per_second:,.0f}{missing}"

    @property
    def latency(self) -> str:
        """Milliseconds until the answer, p50 / p99."""
        return f"{self.answers.p50_ms:.1f} / {self.answers.p99_ms:.1f}"


def of_cluster(cluster: LocalCluster, streams: Child, users: Sequence[int]) -> list[Read]:
    """The reads of owner, gateway and combined answer; `streams` is the running stream."""
    apis = {child.name.rpartition("-")[0]: child.pid for child in cluster.apis}
    owner = {"owner": apis["metrics"], "Redis": cluster.redis.pid, STREAMS: streams.pid}
    named = {"gateway": cluster.gateway.pid, "names": apis["names"], **owner}
    gateway, profiles = cluster.url.removeprefix("http://"), paths(PROFILE, users)
    return [
        Read(OWNER, cluster.addresses["metrics"][0], profiles, owner),
        Read(GATEWAY, gateway, profiles, named),
        Read(COMBINED, gateway, paths(USER, users), {"recommender": apis[recommendations.SERVICE], **named}),
    ]


def paths(path: str, users: Sequence[int]) -> list[str]:
    """`path` for each of `users`, whose number replaces {user}."""
    return [path.format(user=user) for user in users]


def ask(read: Read, report: Report, connections: int = FEW, rate: float = 0, events: int = 0) -> Measured:
    """Send `read` over `connections`; failed requests are failures of `report`.

    rate: requests a second, half the peak rate; 0 for as many as the connections can send. events: a second meanwhile.
    """
    # So many connections saturate the server, and requests may be refused.
    tally, seconds = connections == MANY, PACED_S if rate else READ_S
    meter = cpu.Meter(read.trees)
    answers = wrk.run(read.address, read.paths, wrk.Clients(connections, seconds, rate, tally))
    measured = Measured(read.name, rate, answers, meter.read())
    if tally:
        time.sleep(DRAINED_S)
    paced, load = " at half the peak rate" if rate else "", f", {events:,} events/s" if events else ""
    situation = f"{read.name}, {connections} connections{paced}{load}"
    figures = f"{measured.per_second} a second", f"{measured.latency} ms", f"CPU {measured.total_ms:.3f} ms"
    say(" | ".join((situation, *figures, measured.processes)))
    if failures := answers.failures:
        report.failures.append(f"{situation}: {failures:,} of {answers.requests:,} answers failed")
    return measured


def idle(reads: Sequence[Read], report: Report) -> Sequence[Measured]:
    """Measure without events; the answers at half the peak rate."""
    say("no reads")
    meter = cpu.Meter(reads[-1].trees)
    time.sleep(READ_S)
    report.figures["Streams"]["cores when nobody asks"] = str(meter.read())
    peaks, paced = zip(*(_without_events(read, report) for read in reads), strict=True)
    report.targets.append(Target(f"{COMBINED}: CPU", peaks[-1].total_ms, 3, unit="ms", parts=peaks[-1].parts))
    return paced


def walked(read: Read, walks_ms: float, report: Report) -> None:
    """Measure a combined answer without events, with new walks, which take `walks_ms` milliseconds of CPU."""
    peak, _ = _without_events(read, report)
    what, value = f"{read.name}: CPU over its three walks", peak.total_ms / walks_ms
    report.targets.append(Target(what, value, 1.5, 1.2, "x", parts=peak.parts))


def loaded(reads: Sequence[Read], paced: Sequence[Measured], report: Report) -> None:
    """Measure at `RATE` events a second, beside the answers without events at half the peak rate."""
    for read, before in zip(reads, paced, strict=True):
        meanwhile = ask(read, report, rate=before.rate, events=RATE)
        rise, cores = meanwhile.answers.p99_ms - before.answers.p99_ms, meanwhile.usage.cores
        what = f"{read.name}: rise of p99 under load"
        report.targets.append(Target(what, rise, RISES_MS[read.name], KAFKA_STREAMS_RISE_MS, "ms", parts=cores))
        few, many = (ask(read, report, connections, events=RATE) for connections in (FEW, MANY))
        report.reads.append(_row(few, many, meanwhile, f", {RATE:,} events/s"))


def _without_events(read: Read, report: Report) -> tuple[Measured, Measured]:
    """The peak, and half of its rate, after a warm-up that fills caches and opens connections."""
    wrk.run(read.address, read.paths, wrk.Clients(FEW, WARM_S))
    peak, flood = (ask(read, report, connections) for connections in (FEW, MANY))
    paced = ask(read, report, rate=peak.answers.per_second / 2)
    report.reads.append(_row(peak, flood, paced))
    return peak, paced


def _row(few: Measured, many: Measured, paced: Measured, load: str = "") -> tuple[str, ...]:
    """The row of the table of reads: CPU time with few connections, latency at half the peak rate."""
    rates = f"{few.per_second} / {many.per_second}"
    return f"{few.read}{load}", rates, paced.latency, f"{few.total_ms:.3f}", few.processes
