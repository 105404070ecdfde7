"""The table of `make faults`: one row a fault, kept in `docs/faults.md`."""

from dataclasses import dataclass
from pathlib import Path

from tests.faults.load import READS_PER_S, WRITES_PER_S

PATH = Path("docs/faults.md")
HEAD = f"""# Faults

Written by `make faults`: real Kafka, Redis, Spark and APIs on one machine, {WRITES_PER_S} events and
{READS_PER_S} reads a second (F10: 200 reads) while something fails at random moments (seeded). After each fault the
topics were recounted as `make verify` does; *differing* counts the keys and records of any service that were lost,
doubled or otherwise not equal. *Recovered* is the longest time from the end of a fault until the states stood where the
topics had ended then.

"""
COLUMNS = ("fault", "what", "times", "differing", "reads", "failed", "wrong", "longest time with failures", "recovered")


@dataclass(frozen=True)
class Row:
    """What one fault did."""

    fault: str
    what: str
    times: int
    differing: int
    reads: int
    failed: int
    wrong: int
    longest_s: float
    recovered_s: float

    def cells(self) -> tuple[str, ...]:
        counts = (self.times, self.differing, self.reads, self.failed, self.wrong)
        return (
            self.fault,
            self.what,
            *(f"{n:,}" for n in counts),
            f"{self.longest_s:.1f} s",
            f"{self.recovered_s:.1f} s",
        )


def table(rows: dict[str, str]) -> str:
    """The table of lines by fault."""
    ordered = sorted(rows, key=lambda fault: int("".join(filter(str.isdigit, fault))))
    return "\n".join([_line(COLUMNS), _line(["---"] * len(COLUMNS)), *(rows[fault] for fault in ordered)])


def keep(rows: list[Row]) -> str:
    """Write `rows` into the table at `PATH`, where those of other faults stay; the new table."""
    lines = PATH.read_text().splitlines() if PATH.exists() else []
    known = {line.split("|")[1].strip(): line for line in lines if line.startswith("| F")}
    new = table(known | {row.fault: _line(row.cells()) for row in rows})
    PATH.write_text(f"{HEAD}{new}\n")
    return new


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
