"""What was measured, as Markdown with charts."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from devkit.bench import reads, svg
from devkit.bench.figures import Figures, Paced, peak
from devkit.bench.reads import Measured
from devkit.bench.recommendations import Row
from devkit.bench.steady import RATE
from devkit.bench.targets import Target, targets

PAGE, CPU_CHART, LATENCY_CHART = "bench.md", "bench-cpu.svg", "bench-latency.svg"


def write(folder: Path, figures: Figures, events: int) -> None:
    """The page and its charts."""
    (folder / CPU_CHART).write_text(cpu_chart(figures))
    (folder / LATENCY_CHART).write_text(latency_chart(figures))
    charts = f"![CPU a request by process]({CPU_CHART})\n\n![Latency without and with events]({LATENCY_CHART})\n"
    (folder / PAGE).write_text(f"# Figures\n\n{conditions(events)}\n\n{text(figures)}\n## Charts\n\n{charts}")


def conditions(events: int) -> str:
    """Where and how the figures come about."""
    return f"""Written by `make bench` on {os.cpu_count()} cores, with broker, load and clients on the same machine.
The state is made of {events:,} seeded events in 8 partitions. Compare figures of one run only.

- *CPU* is user and system time of a process and all its workers. *Pressure* is the share of the run in which some
  task waited for a core (`/proc/pressure/cpu`).
- Reads come from `wrk` in one thread, for users drawn by their plays, after a warm-up. What `streams` use is shown but
  not part of a request's CPU: they go on without reads.
- Under load the stream of metrics runs alone, as in its deployment, and {RATE:,} events a second are sent.
- Kafka Streams answers profiles with names kept in them (RocksDB, `exactly_once_v2`, one process, no gateway); its
  ingest is counted from its first record, ours from the start of the processes and with Redis. Without it in a run,
  what is relative to it is left out."""


def text(figures: Figures) -> str:
    """Every section that there are figures for."""
    found = targets(figures)
    sections = [
        ("Targets", _targets(found)),
        ("Where the time goes", "".join(_goes(found))),
        ("Reads", _reads([*figures.reads, *figures.peers.reads])),
        ("Reads at half their peak rate", _paced([*figures.paced, *filter(None, [figures.peers.paced])])),
        ("Streams", _pairs(_streams(figures))),
        ("Overload", _pairs(_overload(figures))),
        ("Recommender, inside its process", _pairs(_recommender(figures))),
        ("Failed", "".join(f"- {failure}\n" for failure in figures.failures())),
    ]
    return "\n".join(f"## {title}\n\n{body}" for title, body in sections if body)


def cpu_chart(figures: Figures) -> str:
    """CPU a request by process, without load."""
    names = (reads.OWNER, reads.GATEWAY, reads.COMBINED)
    found = [*(peak(figures.reads, name) for name in names), peak(figures.peers.reads)]
    return svg.stacked("CPU a request", "ms", [(one.read, one.parts) for one in found if one])


def latency_chart(figures: Figures) -> str:
    """p50 and p99 at half the peak rate."""
    pairs = [*figures.paced, *filter(None, [figures.peers.paced])]
    bars = [
        (f"{one.read}, {when}", {"p50": one.answers.p50_ms, "p50 to p99": one.answers.p99_ms - one.answers.p50_ms})
        for pair in pairs
        for when, one in (("idle", pair.idle), ("loaded", pair.loaded))
    ]
    return svg.stacked(f"Latency at half the peak rate, idle and at {RATE:,} events/s", "ms", bars)


def _targets(found: Sequence[Target]) -> str:
    return _table(("what", "figure", "target", "stretch", "met"), map(_target, found)) if found else ""


def _target(target: Target) -> tuple[str, ...]:
    limit = f"{'at least' if target.at_least else 'at most'} {_amount(target.limit, target.unit)}"
    goal = "" if target.goal is None else _amount(target.goal, target.unit)
    return target.what, _amount(target.value, target.unit), limit, goal, "yes" if target.met else "no"


def _amount(value: float, unit: str) -> str:
    return {"": f"{value:.0%}", "x": f"{value:.2f} x"}.get(unit) or f"{value:.3g} {unit}"


def _goes(found: Sequence[Target]) -> Iterator[str]:
    """For each target that is not met, the share of each process."""
    for target in found:
        if not target.met and target.parts:
            yield f"- {target.what}: {shares(target.parts)}.\n"


def shares(parts: Mapping[str, float]) -> str:
    """The greatest first."""
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {amount / total:.0%}" for name, amount in ordered if amount >= 0.005 * total)


def _reads(found: Sequence[Measured]) -> str:
    head = ("read", "situation", "a second", "p50 ms", "p99 ms", "CPU ms a request", "by process", "pressure")
    return _table(head, map(_read, found)) if found else ""


def _read(one: Measured) -> tuple[str, ...]:
    processes = ", ".join(f"{name} {one.cpu_ms(name):.3f}" for name in one.usage.cpu)
    latency = (f"{one.answers.p50_ms:.1f}", f"{one.answers.p99_ms:.1f}")
    rate, pressure = f"{one.answers.per_second:,.0f}", _share(one.usage.pressure)
    return one.read, str(one.situation), rate, *latency, f"{one.total_ms:.3f}", processes, pressure


def _paced(found: Sequence[Paced]) -> str:
    head = ("read", "a second, idle / loaded", "p50 ms", "p99 ms", "rise of p99 ms", "pressure")
    return _table(head, map(_pair, found)) if found else ""


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


def _streams(figures: Figures) -> Iterator[Row]:
    both = ((figures.ingest, ""), (figures.peers.ingest, "Kafka Streams: "))
    for ingest, who in both:
        if ingest:
            wall = "" if ingest.warm_per_second is None else f" / {ingest.warm_per_second:,.0f}"
            yield f"{who}ingest, events a CPU second, all / second half", f"{ingest.whole:,.0f} / {ingest.warm:,.0f}"
            yield (
                f"{who}ingest, events a second{', all / second half' if wall else ''}",
                f"{ingest.per_second:,.0f}{wall}",
            )
    if figures.size:
        yield "Redis, bytes a user", f"{figures.size.user:,.0f}"
        yield "Redis, bytes a (user, item) pair", f"{figures.size.pair:.1f}"
    for fresh, who in ((figures.freshness, ""), (figures.peers.freshness, "Kafka Streams: ")):
        if fresh:
            cores = ", ".join(f"{name} {amount:.2f}" for name, amount in fresh.cores.items())
            yield f"{who}freshness at {RATE:,} events/s, p50 / p99", f"{fresh.p50_ms:.0f} / {fresh.p99_ms:.0f} ms"
            yield f"{who}cores meanwhile", f"{cores}; pressure {_share(fresh.pressure)}"
    if figures.rest:
        cores = ", ".join(f"{name} {figures.rest.cores(name):.3f}" for name in figures.rest.cpu)
        yield "demo at rest, cores", f"{figures.rest.cores():.2f}: {cores}; pressure {_share(figures.rest.pressure)}"


def _overload(figures: Figures) -> Iterator[Row]:
    if found := figures.overload:
        yield "answers a CPU second of the owner, peak / flood", f"{found.peak:,.0f} / {found.flood:,.0f}"
        asked, lost = found.answers.requests, found.answers.lost
        yield (
            "answers in the flood: 200 / refused / lost",
            f"{found.answers.ok:,} / {asked - found.answers.ok:,} / {lost:,}",
        )
        yield "all answers in the flood", f"p50 {found.answers.p50_ms:.1f} ms, p99 {found.answers.p99_ms:.1f} ms"
        yield "memory before / after", f"{found.before / 1e6:.0f} / {found.after / 1e6:.0f} MB"
        yield "pressure", _share(found.pressure)


def _recommender(figures: Figures) -> Iterator[Row]:
    if figures.walks_ms:
        yield "the three walks of a combined answer, CPU", f"{figures.walks_ms:.2f} ms"
    if ours := figures.recommender:
        yield from ours.rows
        yield from figures.loading
        if theirs := figures.peers.graphjet:
            yield "GraphJet: edges taken in a CPU second", f"{theirs.edges:,.0f}"
            yield "GraphJet: a request, CPU p50", f"{theirs.request_ms:.0f} ms"
            yield "GraphJet's CPU a request over ours", f"{theirs.request_ms / ours.request_ms:,.0f} x"


def _pairs(rows: Iterable[Row]) -> str:
    found = list(rows)
    return _table(("what", "figure"), found) if found else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"
