"""The page of a run: targets and tables."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devkit.docs.tables import table

RATE = 5_000
"""Events a second under load."""

_TARGETS = ("what", "figure", "target (stretch)", "met")
_READS = ("read", "a second", "p50 / p99 ms", "CPU ms", "by process")
PROFILE = "Profiles"
"""The last section, of one part alone."""
SECTIONS = ("Streams", "Overload", "Watchers", "Recommender, inside its process")


@dataclass(frozen=True)
class Target:
    """A `value` with an upper `limit`, or a lower limit with `at_least`; `goal` is the stretch target.

    unit: empty for a share. parts: amounts by process, shown as shares for a missed target.
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

    @property
    def row(self) -> tuple[str, ...]:
        """The row of the table of targets."""
        goal = "" if self.goal is None else f" ({self._number(self.goal)})"
        limit = f"{'≥' if self.at_least else '≤'} {self._number(self.limit)}{goal}"
        figure = f"{self._number(self.value)} {self.unit}" if self.unit not in ("", "x") else self._number(self.value)
        met = "yes" if self.met else ": ".join(filter(None, ("no", shares(self.parts))))
        return self.what, figure, limit, met

    def _number(self, value: float) -> str:
        if value >= 100 and self.unit == "ms":
            return f"{value:,.0f}"
        return {"": f"{value:.0%}", "x": f"{value:.2f}x"}.get(self.unit) or f"{value:.3g}"


class BenchReport:
    """The figures of a run. sections: figures by name."""

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.failures: list[str] = []
        self.reads: list[Sequence[str]] = []
        self.profile: list[Target] = []
        self.sections: dict[str, dict[str, str]] = {title: {} for title in SECTIONS}

    def text(self) -> str:
        """All sections with figures."""
        sections = [
            ("Targets", table(_TARGETS, [target.row for target in self.targets])),
            ("Reads", table(_READS, self.reads)),
            *((title, _listed(figures)) for title, figures in self.sections.items()),
            (PROFILE, table(_TARGETS, [target.row for target in self.profile])),
            ("Failed", "".join(f"- {failure}\n" for failure in self.failures)),
        ]
        return "\n".join(f"## {title}\n\n{body}" for title, body in sections if body)

    def write(self, page: Path, events: int) -> None:
        """Write the figures to `page`, behind the terms at its top."""
        terms = page.read_text().partition("## Conditions\n")[0]
        conditions = f"- {os.cpu_count()} cores\n- a state of {events:,} seeded events in 8 partitions\n"
        page.write_text(f"{terms}## Conditions\n\n{conditions}\n{self.text()}")

    def write_profile(self, page: Path) -> None:
        """Write the last section of `page`, after a run of the part `profile` alone."""
        before, _, _ = page.read_text().partition(f"\n## {PROFILE}\n")
        page.write_text(f"{before.rstrip()}\n\n{self.text()}")


def _listed(figures: Mapping[str, str]) -> str:
    return "".join(f"- **{what}**: {figure}\n" for what, figure in figures.items())


def shares(parts: Mapping[str, float]) -> str:
    """Shares of the sum in percent, from 5 on, the greatest first."""
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {amount / total:.0%}" for name, amount in ordered if amount >= 0.05 * total)
