"""The table of `make faults`: one row a fault, kept in `docs/faults.md`."""

import re
from pathlib import Path

from devkit.docs.tables import table
from tests.faults.load import READS_PER_S, WRITES_PER_S

PATH = Path("docs/faults.md")
HEAD = f"""# Faults

Written by `make faults`: real Kafka, Redis, Spark and APIs on one machine, {WRITES_PER_S} events and {READS_PER_S}
reads a second (F10: 200 reads), with faults at random moments for the seeds 1, 2 and 3. F16, F17, F18, F20 and F26 are
without events, F29 and F30 without reads.
`SEEDS=2 make faults SHARD=redis` repeats a part, and `make faults QUICK=1` a fault of each kind once: they print their
rows only.

- *errors*, in *figures*, none if absent: keys and records of any service that a replay finds different, and answers
  other than the profile
- *failed*: reads with 503 or 504 or without an answer, and the longest time with failures
- *recovered*: the longest time from the end of a fault until the states reached the topic ends of that moment

"""
COLUMNS = ("fault", "what", "times", "reads", "recovered", "figures")

Row = tuple[str, ...]
"""A cell for each of `COLUMNS`."""


def text(rows: list[Row]) -> str:
    """The table: faults with numbers first."""
    ordered = sorted(rows, key=lambda row: (row[0][0] != "F", *map(int, re.findall(r"\d+", row[0]))))
    return table(COLUMNS, ordered)


def keep(rows: list[Row]) -> None:
    """Write `rows` into the table at `PATH`, where those of other faults stay."""
    lines = [tuple(line[2:-2].split(" | ")) for line in PATH.read_text().splitlines() if line.startswith("| ")]
    old = {cells[0]: cells for cells in lines[2:]}
    PATH.write_text(HEAD + text([*(old | {row[0]: row for row in rows}).values()]))
