"""The page of `make soak`: what memory, reads and streams did over time."""

from collections.abc import Mapping
from html import escape
from itertools import cycle
from pathlib import Path

from devkit.docs.tables import table
from tests.faults.load import READS_PER_S, WRITES_PER_S
from tests.faults.soaking import WARM_UP, BusyUser, Harm, Points, Samples, p99_ms, slope

PAGE = "reliability.md"
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

No measured process restarted. *Slope*: of a line through the samples after the first {WARM_UP:.0%} of the time, as a
share of their mean.
"""


def write(folder: Path, minutes: float, samples: Samples, busy: BusyUser, harm: Harm) -> None:
    """The page and its charts."""
    charts = {
        "soak-memory.svg": _lines("Memory", "MB", "minutes", samples.memory.by_name),
        "soak-reads.svg": _lines("p99 of reads", "ms", "minutes", samples.reads.by_name),
        "soak-lag.svg": _lines("Records behind", "all services", "minutes", samples.lag.by_name),
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
    users = (("the user with a million events", busy.theirs), ("another user", busy.others))
    p99 = [f"- {user}: p99 of {len(reads):,} reads {p99_ms(reads):.0f} ms\n" for user, reads in users]
    return "".join([*p99, f"- harmful connections ended: {harm.ended:,}\n"])


# Line charts as SVG.

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999")
_WIDTH, _TOP, _LEFT, _RIGHT, _PLOT, _BELOW = 760, 60, 60, 740, 200, 40


def _lines(title: str, unit: str, across: str, series: Mapping[str, Points]) -> str:
    """A line for each of `series`, by name, from zero; `across` is the label of the horizontal axis."""
    colours = dict(zip(series, cycle(_COLOURS), strict=False))
    right = max((x for points in series.values() for x, _ in points), default=0) or 1
    top = max((y for points in series.values() for _, y in points), default=0) or 1
    bottom = _TOP + _PLOT
    size = f'viewBox="0 0 {_WIDTH} {bottom + _BELOW}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{bottom + _BELOW}" fill="white"/>',
        _text(10, 20, f"{title} ({unit})", 14),
    ]
    for at, (name, colour) in enumerate(colours.items()):
        x = 10 + at * (_WIDTH - 20) // len(colours)
        drawn += [f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>', _text(x + 17, 42, name)]
    drawn.append(_text(_LEFT, bottom + 30, across))
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = bottom - part * _PLOT
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#dddddd"/>')
        drawn.append(_text(10, y + 4, _amount(part * top)))
        drawn.append(_text(_LEFT + part * (_RIGHT - _LEFT) - 10, bottom + 16, _amount(part * right)))
    for name, points in series.items():
        path = " ".join(f"{_LEFT + x / right * (_RIGHT - _LEFT):.1f},{bottom - y / top * _PLOT:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
    return "\n".join([*drawn, "</svg>", ""])


def _amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _text(x: float, y: float, text: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'
