"""The page of `make soak`: what memory, reads and streams did over time."""

from pathlib import Path
from statistics import median

from devkit.docs.tables import table
from devkit.lab.load import Reads
from tests.faults.load import READS_PER_S, WRITES_PER_S
from tests.faults.soaking import WARM_UP, Harm, Points, Samples, slope

PAGE = Path("docs/reliability.md")
LIMIT = 0.01
"""Memory may grow by this part in an hour."""

GROWING = ("Redis",)
"""Their state grows with each new user and item."""

HEAD = f"""# Reliability over time

Written by `make soak`: real Kafka, Redis, Spark and APIs on one machine, {WRITES_PER_S} events a second of 100,000
users and {READS_PER_S} reads a second for {{minutes:.0f}} minutes, and a user with a million events. Every minute,
in turn: a kill of a stream, a deletion of a user, a kill of an instance, a third instance that comes and goes.
Meanwhile, 64 connections send half a request or do not read answers. Errors and failed reads: F25 in
[faults](faults.md).

No measured process restarted. Figures of a quarter of the time: median, and greatest in brackets; memory in MB.
*Slope*: of a line through the samples after the first {WARM_UP:.0%} of the time, as a share of their mean.
"""
COLUMNS = ("what", "1st quarter", "2nd", "3rd", "4th", "slope an hour", f"at most {LIMIT:.0%}")


def write(minutes: float, samples: Samples, by_user: dict[str, Reads], harm: Harm) -> None:
    """Write the page. by_user: the reads of a user, by a name of the user."""
    rows = [(name, *quarters(points), *_growth(name, points, samples)) for name, points in samples.by_name.items()]
    reads = [f"- {user}: p99 of {len(each.all):,} reads {each.ms(99):.0f} ms\n" for user, each in by_user.items()]
    text = [HEAD.format(minutes=minutes), table(COLUMNS, rows)]
    PAGE.write_text("\n".join([*text, "".join([*reads, f"- harmful connections ended: {harm.ended:,}\n"])]))


def quarters(points: Points) -> list[str]:
    """Median and greatest amount in each quarter of the time."""
    end = points[-1][0]
    parts = [[amount for minute, amount in points if q < 4 * minute / end <= q + 1] or [0.0] for q in range(4)]
    return [f"{median(part):,.0f} ({max(part):,.0f})" for part in parts]


def _growth(name: str, points: Points, samples: Samples) -> tuple[str, str]:
    if name not in samples.children:
        return "", ""
    grows = slope(points)
    met = "grows with its state" if name in GROWING else "yes" if grows <= LIMIT else "no"
    return f"{grows:+.2%}", met
