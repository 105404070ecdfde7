"""Reads over HTTP, without and with events: the rate, the latency, and the CPU time of each process for a read."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.bench import cpu, wrk
from devkit.bench.measures import recommendations
from devkit.bench.report import RATE, BenchReport, Target
from devkit.bench.wrk import Clients, LoadResult
from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
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
    """A request: `paths` is a file with a path a line, `trees` are the processes behind the answer."""

    name: str
    address: str
    paths: Path
    trees: Mapping[str, int]


@dataclass(frozen=True)
class Situation:
    """The connections of a read, the events a second meanwhile, and the requests a second.

    rate: half the peak rate; 0 for as many requests as the connections can send.
    """

    connections: int = FEW
    events: int = 0
    rate: float = 0

    def __str__(self) -> str:
        rate = " at half the peak rate" if self.rate else ""
        load = f", {self.events:,} events/s" if self.events else ""
        return f"{self.connections} connections{rate}{load}"


@dataclass(frozen=True)
class Measured:
    """A read in a situation."""

    read: str
    situation: Situation
    answers: LoadResult
    usage: cpu.Usage

    def cpu_ms(self, name: str) -> float:
        """CPU milliseconds of the process `name` for each request."""
        return 1000 * self.usage.cpu[name] / self.answers.requests

    @property
    def parts(self) -> dict[str, float]:
        """CPU milliseconds a request by process, without the streams, whose work is independent of reads."""
        return {name: self.cpu_ms(name) for name in self.usage.cpu if name != STREAMS}

    @property
    def total_ms(self) -> float:
        """CPU milliseconds a request of all processes but the streams."""
        return sum(self.parts.values())

    @property
    def processes(self) -> str:
        """CPU milliseconds a request by process, from 1 % on."""
        used = {name: self.cpu_ms(name) for name in self.usage.cpu}
        return ", ".join(f"{name} {ms:.3f}" for name, ms in used.items() if ms >= 0.01 * self.total_ms)

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


def write_paths(folder: Path, path: str, users: Sequence[int]) -> Path:
    """A new file in `folder`, with `path` for each of `users`, whose number replaces {user}."""
    file = folder / f"paths{path.replace('/', '-').replace('{user}', '')}.txt"
    file.write_text("".join(f"{path.format(user=user)}\n" for user in users))
    return file


def of_cluster(cluster: LocalCluster, streams: Child, folder: Path, users: Sequence[int]) -> list[Read]:
    """The reads of owner, gateway and combined answer; `streams` is the running stream, and `folder` is for files."""
    apis = {child.name.rpartition("-")[0]: child.pid for child in cluster.apis}
    owner = {"owner": apis["metrics"], "Redis": cluster.redis.pid, STREAMS: streams.pid}
    named = {"gateway": cluster.gateway.pid, "names": apis["names"], **owner}
    gateway = cluster.url.removeprefix("http://")
    profile = write_paths(folder, PROFILE, users)
    return [
        Read(OWNER, cluster.addresses["metrics"][0], profile, owner),
        Read(GATEWAY, gateway, profile, named),
        Read(
            COMBINED, gateway, write_paths(folder, USER, users), {"recommender": apis[recommendations.SERVICE], **named}
        ),
    ]


def row(few: Measured, many: Measured, paced: Measured) -> tuple[str, ...]:
    """The row of the table of reads: CPU time with few connections, latency at half the peak rate."""
    load = f", {few.situation.events:,} events/s" if few.situation.events else ""
    rates = f"{few.per_second} / {many.per_second}"
    return f"{few.read}{load}", rates, paced.latency, f"{few.total_ms:.3f}", few.processes


def measure(read: Read, situation: Situation, report: BenchReport) -> Measured:
    """Send `read` in `situation`; failed requests are failures of `report`."""
    # So many connections saturate the server, and requests may be refused.
    tally, seconds = situation.connections == MANY, PACED_S if situation.rate else READ_S
    meter = cpu.Meter(read.trees)
    answers = wrk.run(read.address, read.paths, Clients(situation.connections, seconds, situation.rate, tally))
    measured = Measured(read.name, situation, answers, meter.read())
    if tally:
        time.sleep(DRAINED_S)
    figures = f"{measured.per_second} a second", f"{measured.latency} ms", f"CPU {measured.total_ms:.3f} ms"
    say(" | ".join((measured.read, str(situation), *figures, measured.processes)))
    if failures := answers.failures:
        report.failures.append(f"{read.name}, {situation}: {failures:,} of {answers.requests:,} answers failed")
    return measured


class Reads:
    """The measures of `reads`."""

    def __init__(self, reads: Sequence[Read], report: BenchReport) -> None:
        self._reads = reads
        self._report = report
        self._paced: list[Measured] = []

    def idle(self) -> None:
        """Without events."""
        say("no reads")
        meter = cpu.Meter(self._reads[-1].trees)
        time.sleep(READ_S)
        self._report.sections["Streams"].update({"cores when nobody asks": str(meter.read())})
        for read in self._reads:
            peak, paced = self._without_events(read)
            self._paced.append(paced)
        what = f"{COMBINED}: CPU"
        self._report.targets.append(Target(what, peak.total_ms, 3, unit="ms", parts=peak.parts))

    def walked(self, read: Read, walks_ms: float) -> None:
        """A combined answer without events, with new walks, which take `walks_ms` milliseconds of CPU."""
        peak, _ = self._without_events(read)
        what, value = f"{read.name}: CPU over its three walks", peak.total_ms / walks_ms
        self._report.targets.append(Target(what, value, 1.5, 1.2, "x", parts=peak.parts))

    def _without_events(self, read: Read) -> tuple[Measured, Measured]:
        """The peak, and half of its rate, after a warm-up that fills caches and opens connections."""
        wrk.run(read.address, read.paths, Clients(FEW, WARM_S))
        peak, flood = (measure(read, Situation(connections), self._report) for connections in (FEW, MANY))
        paced = measure(read, Situation(rate=peak.answers.per_second / 2), self._report)
        self._report.reads.append(row(peak, flood, paced))
        return peak, paced

    def loaded(self) -> None:
        """At `RATE` events a second, after `idle`."""
        for read, idle in zip(self._reads, self._paced, strict=True):
            loaded = measure(read, Situation(events=RATE, rate=idle.situation.rate), self._report)
            what = f"{read.name}: rise of p99 under load"
            rise, cores = loaded.answers.p99_ms - idle.answers.p99_ms, loaded.usage.cores
            limit = RISES_MS[read.name]
            self._report.targets.append(Target(what, rise, limit, KAFKA_STREAMS_RISE_MS, "ms", parts=cores))
            situations = Situation(FEW, RATE), Situation(MANY, RATE)
            few, many = (measure(read, situation, self._report) for situation in situations)
            self._report.reads.append(row(few, many, loaded))
