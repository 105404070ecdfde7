"""The figures of a run: what is measured, what is to be reached, and the exit status."""

import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic_settings import BaseSettings

from devkit.docs.tables import table
from streamstate import bootstrap
from streamstate.errors import StreamStateError

S = TypeVar("S", bound=BaseSettings)

TARGETS, READS, PROFILES, FAILED = "Targets", "Reads", "Profiles", "Failed"
SECTIONS = (TARGETS, READS, "Streams", "Overload", "Watchers", "Recommender, inside its process", PROFILES, FAILED)
_TARGET = ("what", "figure", "target (stretch)", "met")
_READ = ("read", "a second", "p50 / p99 ms", "CPU ms", "by process")


@dataclass(frozen=True)
class Target:
    """A `value` with an upper `limit`, or a lower limit with `at_least`; `goal` is the stretch target.

    unit: of the value; `%` for a share, `x` for a ratio.
    parts: amounts by process, shown as shares for a missed target.
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
        figure = self._number(self.value) + (f" {self.unit}" if self.unit not in ("", "x", "%") else "")
        met = "yes" if self.met else ": ".join(filter(None, ("no", shares(self.parts))))
        return self.what, figure, limit, met

    def _number(self, value: float) -> str:
        texts = {"%": f"{value:.0%}", "x": f"{value:.2f}x"}
        return texts.get(self.unit) or (f"{value:,.0f}" if value >= 100 else f"{value:.3g}")


class Report:
    """The targets of a run and its `figures`, by section; `failures` are failed requests."""

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.profiles: list[Target] = []
        self.reads: list[Sequence[str]] = []
        self.figures: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.failures: list[str] = []

    @property
    def reached(self) -> bool:
        """Whether all targets are met."""
        return all(target.met for target in (*self.targets, *self.profiles))

    def sections(self) -> dict[str, str]:
        """The text of each section with figures."""
        texts = {
            title: "".join(f"- **{what}**: {text}\n" for what, text in self.figures[title].items())
            for title in SECTIONS
        }
        texts |= {
            TARGETS: table(_TARGET, [target.row for target in self.targets]),
            READS: table(_READ, self.reads),
            PROFILES: table(_TARGET, [target.row for target in self.profiles]),
            FAILED: "".join(f"- {failure}\n" for failure in self.failures),
        }
        return {title: text for title, text in texts.items() if text}

    def write(self, page: Path, conditions: str = "") -> None:
        """Write the sections into `page`: behind the `conditions` of a whole run, else in place of the old ones."""
        before, *old = page.read_text().split("\n## ")
        sections = {title: text.strip() + "\n" for title, _, text in (section.partition("\n") for section in old)}
        if conditions:
            sections = {title: text for title, text in sections.items() if title not in SECTIONS} | {
                "Conditions": conditions
            }
        page.write_text(f"{before.rstrip()}\n\n{written(sections | self.sections())}")


def written(sections: Mapping[str, str]) -> str:
    """Sections in Markdown."""
    return "\n".join(f"## {title}\n\n{text}" for title, text in sections.items())


def shares(parts: Mapping[str, float]) -> str:
    """Shares of the sum in percent, from 5 on, the greatest first."""
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {amount / total:.0%}" for name, amount in ordered if amount >= 0.05 * total)


def run(settings: type[S], measure: Callable[[S, Path, Report], None], *, misses_fail: bool = True) -> int:
    """Print the report of `measure`, called with the settings of the environment, a scratch folder and the report.

    Returns the exit status: 1 after an error or a failed request and, with `misses_fail`, a missed target.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = Report()
    try:
        with tempfile.TemporaryDirectory() as home:
            measure(bootstrap.configure(settings), Path(home), report)
    except (StreamStateError, KeyboardInterrupt) as error:
        sys.stderr.write(f"{str(error) or 'interrupted'}\n")
        return 1
    sys.stdout.write(f"\n{written(report.sections())}")
    return 1 if report.failures or (misses_fail and not report.reached) else 0
