"""The targets, and what a run says about each that it has measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from devkit.bench.figures import JSON, Figures, peak
from devkit.bench.overload import CLIENTS
from devkit.bench.read_load import COMBINED, GATEWAY, OWNER
from devkit.bench.steady import RATE
from devkit.bench.watchers.figures import WATCHERS, percentile


@dataclass(frozen=True)
class Target:
    """`value` shall be at most `limit`, or with `at_least` no less; `goal` is what is striven for.

    `unit` is empty for a share. `parts` tells where the time goes: amounts by process.
    """

    what: str
    value: float
    limit: float
    goal: float | None = None
    unit: str = ""
    at_least: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def targets(figures: Figures) -> list[Target]:
    """Those for which there are figures, in the order of the report."""
    parts = _reads, _access, _rises, _overload, _watching, _streams, _ingest
    return [target for part in parts for target in part(figures)]


def _reads(figures: Figures) -> Iterator[Target]:
    for name, limit, goal in ((OWNER, 4, 2.7), (GATEWAY, 9, 6)):
        ours, theirs = peak(figures.reads, name), figures.peers.reads.get(name)
        if ours and theirs:
            what = f"{name}: CPU a read over Kafka Streams'"
            yield Target(what, ours.total_ms / theirs.total_ms, limit, goal, "x", parts=ours.parts)
    combined = peak(figures.reads, COMBINED)
    if combined and figures.walks_ms:
        what, value = f"{COMBINED}: CPU over that of its three walks", combined.total_ms / figures.walks_ms
        yield Target(what, value, 1.5, 1.2, "x", parts=combined.parts)


def _access(figures: Figures) -> Iterator[Target]:
    if access := figures.access:
        parts = access.pairs[-1][1].parts
        yield Target(
            f"{GATEWAY}: CPU with a key and limits over that without", access.cost, 1.15, unit="x", parts=parts
        )


def _rises(figures: Figures) -> Iterator[Target]:
    if theirs := figures.peers.paced:
        for ours in figures.paced:
            what = f"{ours.idle.read}: rise of p99 by {RATE:,} events/s, at most Kafka Streams'"
            usage = ours.loaded.usage
            parts = {name: usage.cores(name) for name in usage.cpu}
            yield Target(what, ours.rise_ms, theirs.rise_ms, unit="ms", parts=parts)


def _overload(figures: Figures) -> Iterator[Target]:
    if overload := figures.overload:
        flood = f"{CLIENTS} clients without pause"
        yield Target(f"{flood}: answers a CPU second, of the peak's", overload.share, 0.8, 0.9, at_least=True)
        if overload.probes.refused:
            yield Target(f"{flood}: refusals, p99", overload.probes.refused_p99_ms, 50, unit="ms")
        yield Target(f"{flood}: memory after over before", overload.growth, 1.1, unit="x")


def _watching(figures: Figures) -> Iterator[Target]:
    if seen := figures.watching:
        watchers = f"{WATCHERS:,} watchers at {RATE:,} events/s"
        late = percentile(seen.behind_ms, 99)
        yield Target(f"{watchers}: events behind the commit, p99", late, 1_000, unit="ms", parts=seen.beside_cores)
        yield Target(f"{watchers}: p99 of reads over that without", seen.slowed, 1.5, unit="x", parts=seen.beside_cores)
        yield Target(f"{watchers}: memory after over before", seen.growth, 1.1, unit="x")
        yield Target(f"{watchers}: lost by an owner's kill", seen.lost, 0, unit="events")


def _streams(figures: Figures) -> Iterator[Target]:
    if fresh := figures.freshness:
        at = f"at {RATE:,} events/s"
        yield Target(f"freshness {at}, p50", fresh.p50_ms, 150, 100, "ms", parts=fresh.cores)
        yield Target(f"freshness {at}, p99", fresh.p99_ms, 300, 200, "ms", parts=fresh.cores)
        yield Target(f"CPU of stream and Redis {at}", sum(fresh.cores.values()), 0.8, 0.5, "cores", parts=fresh.cores)
    if rest := figures.rest:
        parts = {name: rest.cores(name) for name in rest.cpu}
        yield Target("CPU of the whole demo at rest", rest.cores(), 0.5, 0.25, "cores", parts=parts)


def _ingest(figures: Figures) -> Iterator[Target]:
    ours, theirs = figures.ingest, figures.peers.ingest
    if ours and theirs:
        what = "ingest, events a CPU second over Kafka Streams'"
        warm, whole = ours.warm / theirs.warm, ours.whole / theirs.whole
        yield Target(f"{what}: second half", warm, 2.2, 2.7, "x", at_least=True, parts=ours.parts)
        yield Target(f"{what}: all, with our start-up", whole, 1.3, 2, "x", at_least=True, parts=ours.parts)
    json = figures.formats.get(JSON)
    for value, each in figures.formats.items():
        if json and value != JSON:
            what = f"ingest of {value}, events a CPU second over JSON's: second half"
            yield Target(what, each.warm / json.warm, 0.7, 0.85, at_least=True, parts=each.parts)
