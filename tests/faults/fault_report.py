"""The table of `make faults`: one row a fault, kept in `docs/faults.md`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.load import READS_PER_S, WRITES_PER_S

PATH = Path("docs/faults.md")
HEAD = f"""# Faults

Written by `make faults`: real Kafka, Redis, Spark and APIs on one machine, {WRITES_PER_S} events and {READS_PER_S}
reads a second (F10: 200 reads), with faults at random moments for the seeds 1, 2 and 3.
`SEEDS=2 make faults SHARD=redis` repeats a part. F16, F17, F18, F20 and F26 are without events, F29 and F30 without
reads.

- *errors*, in *figures*, none if absent: keys and records of any service that a recount finds different, and answers
  other than the profile
- *failed*: reads with 503 or 504 or without an answer, and the longest time with failures
- *recovered*: the longest time from the end of a fault until the states reached the topic ends of that moment

"""
COLUMNS = ("fault", "what", "times", "reads", "recovered", "figures")


@dataclass(frozen=True)
class Row:
    """The results of a fault."""

    fault: str
    what: str
    times: int
    errors: int
    reads: int
    failed: int
    longest_s: float
    recovered_s: float
    figures: str

    def cells(self) -> tuple[str, ...]:
        failed = f" ({self.failed:,} failed in {self.longest_s:.1f} s)" if self.failed else ""
        errors = f"{self.errors:,} errors" if self.errors else ""
        return (
            self.fault,
            self.what,
            f"{self.times:,}",
            f"{self.reads:,}{failed}",
            f"{self.recovered_s:.1f} s" if self.recovered_s >= 0.05 else "",
            "; ".join(filter(None, (errors, self.figures))),
        )


def table(rows: dict[str, str]) -> str:
    """The table of lines by fault: those with numbers first."""
    ordered = sorted(rows, key=lambda fault: (not _numbers(fault), _numbers(fault), fault))
    return "\n".join([_line(COLUMNS), _line(["---"] * len(COLUMNS)), *(rows[fault] for fault in ordered)])


def keep(rows: list[Row]) -> str:
    """Write `rows` into the table at `PATH`, where those of other faults stay; the new table."""
    _, _, old = PATH.read_text().partition(_line(["---"] * len(COLUMNS))) if PATH.exists() else ("", "", "")
    known = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("|")}
    new = table(known | {row.fault: _line(row.cells()) for row in rows})
    PATH.write_text(f"{HEAD}{new}\n")
    return new


def _numbers(fault: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", fault)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
