"""What was measured, as Markdown with charts."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from devkit import svg
from devkit.bench import markdown, read_load
from devkit.bench.figures import Figures, peak
from devkit.bench.steady import RATE
from devkit.bench.targets import Target, targets
from devkit.bench.watchers.figures import WATCHERS
from devkit.tables import table

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
  not part of a request's CPU: they go on without reads. What other processes use when nobody asks is part of it.
- Under load the stream of metrics runs alone, as in its deployment, and {RATE:,} events a second are sent.
- Kafka Streams answers profiles with names kept in them (RocksDB, `exactly_once_v2`, one process, no gateway), right
  after each read of ours without load; its
  ingest is counted from its first record, ours from the start of the processes and with Redis. Without it in a run,
  what is relative to it is left out.
- Backlogs are folded from nothing: half of the records are in one partition, an hour has one timestamp, all are late
  by minutes, and a topic ends at noon. *Files* is the most that the stream has in files, *memory* in its processes.
- Watchers are clients of streams of whole profiles, of {WATCHERS:,} users drawn evenly, in one process that shares the
  machine. Metrics has two owners then, one of which is killed at the end. Reads beside are profiles at the gateway, 200
  a second; a commit is known to 20 ms."""


def text(figures: Figures) -> str:
    """Every section that there are figures for."""
    all_targets = targets(figures)
    sections = [
        ("Targets", table(("what", "figure", "target", "stretch", "met"), map(_target, all_targets))),
        ("Where the time goes", "".join(_goes(all_targets))),
        ("Reads", markdown.reads([*figures.reads, *figures.peers.reads.values()])),
        ("Reads at half their peak rate", markdown.paced([*figures.paced, *filter(None, [figures.peers.paced])])),
        ("Streams", markdown.streams(figures)),
        ("Backlogs of merged topics, killed half way", markdown.backlogs(figures.backlogs)),
        ("Overload", markdown.overload(figures)),
        (f"{WATCHERS:,} watchers, of a user each", markdown.watching(figures)),
        ("Recommender, inside its process", markdown.recommender(figures)),
        ("Scale", table(("what", "figure"), figures.scale)),
        ("Failed", "".join(f"- {failure}\n" for failure in figures.failures())),
    ]
    return "\n".join(f"## {title}\n\n{body}" for title, body in sections if body)


def cpu_chart(figures: Figures) -> str:
    """CPU a request by process, without load."""
    names = (read_load.OWNER, read_load.GATEWAY, read_load.COMBINED)
    peaks = [*(peak(figures.reads, name) for name in names), figures.peers.reads.get(names[0])]
    return svg.stacked("CPU a request", "ms", [(peak_read.read, peak_read.parts) for peak_read in peaks if peak_read])


def latency_chart(figures: Figures) -> str:
    """p50 and p99 at half the peak rate."""
    pairs = [*figures.paced, *filter(None, [figures.peers.paced])]
    bars = [
        (f"{read.read}, {when}", {"p50": read.answers.p50_ms, "p50 to p99": read.answers.p99_ms - read.answers.p50_ms})
        for pair in pairs
        for when, read in (("idle", pair.idle), ("loaded", pair.loaded))
    ]
    return svg.stacked(f"Latency at half the peak rate, idle and at {RATE:,} events/s", "ms", bars)


def _target(target: Target) -> tuple[str, ...]:
    limit = f"{'at least' if target.at_least else 'at most'} {_amount(target.limit, target.unit)}"
    goal = "" if target.goal is None else _amount(target.goal, target.unit)
    return target.what, _amount(target.value, target.unit), limit, goal, "yes" if target.met else "no"


def _amount(value: float, unit: str) -> str:
    if unit == "ms" and value >= 100:
        return f"{value:,.0f} ms"
    return {"": f"{value:.0%}", "x": f"{value:.2f} x"}.get(unit) or f"{value:.3g} {unit}"


def _goes(all_targets: Sequence[Target]) -> Iterator[str]:
    """The share of each process, for the targets that are not met; those with the same shares together."""
    missed: defaultdict[str, list[str]] = defaultdict(list)
    for target in all_targets:
        if not target.met and target.parts:
            missed[shares(target.parts)].append(target.what)
    for parts, names in missed.items():
        yield f"- {'; '.join(names)}: {parts}.\n"


def shares(parts: Mapping[str, float]) -> str:
    """The greatest first."""
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {amount / total:.0%}" for name, amount in ordered if amount >= 0.005 * total)
