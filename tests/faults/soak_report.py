"""The page of `make soak`: what memory, reads and streams did over time."""

from pathlib import Path

from devkit.tables import table
from tests.faults import svg
from tests.faults.load import READS_PER_S, WRITES_PER_S
from tests.faults.soaking import WARM_UP, BusyUser, Harm, Samples, p99_ms, slope

PAGE = "reliability.md"
LIMIT = 0.01
"""Memory may grow by this part in an hour."""

GROWING = ("Redis",)
"""Their state grows with each new user and item."""

HEAD = f"""# Reliability over time

Written by `make soak`: real Kafka, Redis, Spark and APIs on one machine, {WRITES_PER_S} events a second of 100,000
users and {READS_PER_S} reads a second for {{minutes:.0f}} minutes, and a user with a million events. Every minute,
in turn: a kill of a stream's process, a deletion of a user, a kill of an instance with its API, a third instance
that comes and goes. Meanwhile, 64 connections send half a request or do not read answers. Errors and failed reads: F25
in [faults](faults.md).

No measured process restarted. *Slope*: of a line through the samples after the first {WARM_UP:.0%} of the time,
relative to their mean.
"""


def write(folder: Path, minutes: float, samples: Samples, busy: BusyUser, harm: Harm) -> None:
    """The page and its charts."""
    charts = {
        "soak-memory.svg": svg.lines("Memory", "MB", "minutes", samples.memory.by_name),
        "soak-reads.svg": svg.lines("p99 of reads", "ms", "minutes", samples.reads.by_name),
        "soak-lag.svg": svg.lines("Records behind", "all services", "minutes", samples.lag.by_name),
    }
    for name, chart in charts.items():
        (folder / name).write_text(chart)
    text = [HEAD.format(minutes=minutes), _memory(samples), _reads(busy, harm)]
    text += [f"![{name.partition('.')[0].replace('soak-', '')} over time]({name})\n" for name in charts]
    (folder / PAGE).write_text("\n".join(text))


def _memory(samples: Samples) -> str:
    rows = []
    for name, points in samples.memory.by_name.items():
        grows = slope(points)
        met = "grows with its state" if name in GROWING else "yes" if grows <= LIMIT else "no"
        rows.append((name, f"{points[-1][1]:,.0f} MB", f"{grows:+.2%}", met))
    return table(("memory", "at the end", "slope an hour", f"at most {LIMIT:.0%}"), rows)


def _reads(busy: BusyUser, harm: Harm) -> str:
    rows = [
        (f"the user with a million events, p99 of {len(busy.theirs):,} reads", f"{p99_ms(busy.theirs):.0f} ms"),
        (f"another user, p99 of {len(busy.others):,} reads", f"{p99_ms(busy.others):.0f} ms"),
        ("harmful connections ended", f"{harm.ended:,}"),
    ]
    return table(("reads", "figure"), rows)
