"""The tests wait for conditions, and never for a time."""

import re
from pathlib import Path

from tests.findings import faults

TIMED = re.compile(
    r"^(?:import|from) time\b.*|asyncio\.sleep\((?!0\)).*|\btimeout=\d.*|settimeout\([\d.]+\)"
    r"|\.(?:wait|result|join|communicate)\([\d.]+\)",
    re.MULTILINE,
)
FOLDERS = "unit", "laws", "integration"
HELPERS = "waiting.py", "mutants.py", "test_waits.py"
ABOUT_TIME = {
    "test_rules.py": "import time",  # the CPU time of a fold, relative to that of a smaller one
    "test_redis_transactions.py": "timeout=0.3)",  # of the client under test
    "test_side_by_side.py": ".wait(0.004)",  # between the records of a feed
}


def test_limits_clocks_and_pauses_are_in_one_file() -> None:
    """A limit of its own fails on another machine: `tests.waiting` has one that only a hang reaches."""
    paths = [path for folder in FOLDERS for path in Path("tests", folder).rglob("*.py")] + [*Path("tests").glob("*.py")]
    paths = [path for path in sorted(paths) if path.name not in HELPERS]
    assert len(paths) > 100

    def timed(path: Path) -> list[str]:
        return [text for text in TIMED.findall(path.read_text()) if ABOUT_TIME.get(path.name) != text]

    assert faults(paths, timed) == {}
