"""The figures of each part as tables in Markdown, empty where nothing was measured."""

from collections.abc import Iterator, Mapping, Sequence

from devkit.bench.backlog import Backlog
from devkit.bench.cpu import Usage
from devkit.bench.event_latency import EventLatency
from devkit.bench.figures import Figures, Paced
from devkit.bench.ingest import Ingest
from devkit.bench.read_load import Measured
from devkit.bench.recommendations import Row
from devkit.bench.steady import RATE
from devkit.bench.watchers.figures import percentile
from devkit.tables import table

_WHAT = ("what", "figure")


def reads(rows: Sequence[Measured]) -> str:
    head = ("read", "situation", "a second", "p50 ms", "p99 ms", "CPU ms a request", "by process", "pressure")
    return table(head, map(_read, rows))


def _read(read: Measured) -> tuple[str, ...]:
    processes = ", ".join(f"{name} {read.cpu_ms(name):.3f}" for name in read.usage.cpu)
    latency = (f"{read.answers.p50_ms:.1f}", f"{read.answers.p99_ms:.1f}")
    rate, pressure = f"{read.answers.per_second:,.0f}", _share(read.usage.pressure)
    counts = {"refused": read.answers.refused, "failed": read.answers.failures}
    missing = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
    return read.read, f"{read.situation}{missing}", rate, *latency, f"{read.total_ms:.3f}", processes, pressure


def paced(pairs: Sequence[Paced]) -> str:
    head = ("read", "a second, idle / loaded", "p50 ms", "p99 ms", "rise of p99 ms", "pressure")
    return table(head, map(_pair, pairs))


def _pair(pair: Paced) -> tuple[str, ...]:
    idle, loaded = pair.idle, pair.loaded
    return (
        idle.read,
        f"{idle.answers.per_second:,.0f} / {loaded.answers.per_second:,.0f}",
        f"{idle.answers.p50_ms:.1f} / {loaded.answers.p50_ms:.1f}",
        f"{idle.answers.p99_ms:.1f} / {loaded.answers.p99_ms:.1f}",
        f"{pair.rise_ms:.1f}",
        f"{_share(idle.usage.pressure)} / {_share(loaded.usage.pressure)}",
    )


def streams(figures: Figures) -> str:
    rows = [*_ingest("", figures.ingest), *_ingest("Kafka Streams: ", figures.peers.ingest)]
    rows += [row for value, each in figures.formats.items() for row in _ingest(f"{value}: ", each)]
    if size := figures.size:
        rows.append(("Redis, bytes a user / a (user, item) pair", f"{size.user:,.0f} / {size.pair:.1f}"))
    rows += [*_freshness("", figures.freshness), *_freshness("Kafka Streams: ", figures.peers.freshness)]
    rows += [*_cores("cores when nobody asks", figures.unasked), *_cores("demo at rest, cores", figures.rest)]
    return table(_WHAT, rows)


def _ingest(who: str, ingest: Ingest | None) -> Iterator[Row]:
    if ingest:
        yield f"{who}ingest, events a CPU second, all / second half", f"{ingest.whole:,.0f} / {ingest.warm:,.0f}"
        half = "" if ingest.warm_per_second is None else f", second half {ingest.warm_per_second:,.0f}"
        yield f"{who}ingest, events a second", f"{ingest.per_second:,.0f}{half}"


def _freshness(who: str, freshness: EventLatency | None) -> Iterator[Row]:
    if freshness:
        yield f"{who}freshness at {RATE:,} events/s, p50 / p99", f"{freshness.p50_ms:.0f} / {freshness.p99_ms:.0f} ms"
        yield f"{who}cores meanwhile", f"{_amounts(freshness.cores)}; pressure {_share(freshness.pressure)}"


def _cores(what: str, usage: Usage | None) -> Iterator[Row]:
    if usage:
        amounts = _amounts({name: usage.cores(name) for name in usage.cpu})
        yield what, f"{usage.cores():.2f}: {amounts}; pressure {_share(usage.pressure)}"


def backlogs(rows: Sequence[Backlog]) -> str:
    head = ("service", "records", "a second", "files, MiB", "memory, MiB", "folded when killed")
    return table(head, map(_backlog, rows))


def _backlog(row: Backlog) -> tuple[str, ...]:
    memory = (f"{row.files / 2**20:,.0f}", f"{row.resident / 2**20:,.0f}")
    return row.service, f"{row.records:,}", f"{row.per_second:,.0f}", *memory, f"{row.kept:,}"


def overload(figures: Figures) -> str:
    return table(_WHAT, _overload(figures))


def _overload(figures: Figures) -> Iterator[Row]:
    if overload := figures.overload:
        yield "answers a CPU second of the owner, peak / flood", f"{overload.peak:,.0f} / {overload.flood:,.0f}"
        asked, lost = overload.answers.requests, overload.answers.lost
        answers = f"{overload.answers.ok:,} / {asked - overload.answers.ok:,} / {lost:,}"
        yield "answers in the flood: 200 / refused / lost", answers
        yield "all answers in the flood", f"p50 {overload.answers.p50_ms:.1f} ms, p99 {overload.answers.p99_ms:.1f} ms"
        yield "memory before / after", f"{overload.before / 1e6:.0f} / {overload.after / 1e6:.0f} MB"
        yield "pressure", _share(overload.pressure)


def watching(figures: Figures) -> str:
    return table(_WHAT, _watching(figures))


def _watching(figures: Figures) -> Iterator[Row]:
    if seen := figures.watching:
        for when, late in (("", seen.behind_ms), (", an owner killed", seen.after_kill_ms)):
            shown = [f"{percentile(late, share):,.0f}" for share in (50, 99, 100)]
            yield f"events behind the commit, p50 / p99 / greatest{when}", f"{' / '.join(shown)} ms of {len(late):,}"
        pairs = zip(seen.alone_ms, seen.beside_ms, strict=True)
        yield "p99 of reads without / with watchers", ", ".join(f"{one:.1f} / {two:.1f}" for one, two in pairs) + " ms"
        memory = f"{seen.memory[0] / 1e6:.0f} / {seen.memory[-1] / 1e6:.0f} MB"
        yield "memory of the gateway before / after", memory
        for when, cores in (("without watchers", seen.alone_cores), ("with them", seen.beside_cores)):
            yield f"cores {when}", _amounts(cores)


def recommender(figures: Figures) -> str:
    return table(_WHAT, _recommender(figures))


def _recommender(figures: Figures) -> Iterator[Row]:
    if figures.walks_ms:
        yield "the three walks of a combined answer, CPU", f"{figures.walks_ms:.2f} ms"
    if figures.loading:
        yield figures.loading
    if ours := figures.recommender:
        yield from ours.rows
        if theirs := figures.peers.graphjet:
            yield "GraphJet: edges taken in a CPU second", f"{theirs.edges:,.0f}"
            yield "GraphJet: a request, CPU p50", f"{theirs.request_ms:.0f} ms"
            yield "GraphJet's CPU a request over ours", f"{theirs.request_ms / ours.request_ms:,.0f} x"


def _amounts(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:.2f}" for name, amount in parts.items())


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"
