"""`docs/data-model.md`, made from the source: the keys in Redis."""

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from devkit.registry import SERVICES
from devkit.tables import table
from streamstate.state import redis

PATH = Path("docs/data-model.md")
_KEYS = re.compile(r"^\| state key \| holds \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_HEAD = """# Data model

Made from the source by `make docs`. The state of a partition changes only by a [commit](decisions/commit.md), together
with its offsets; `redis-cli` reads all keys. [Stability](stability.md) says how keys may change, and
[operations.py](../libs/streamstate/src/streamstate/state/operations.py) describes the operations of folds and the
reads of views.

## Keys
"""


def text() -> str:
    """The whole page."""
    parts = [
        f"{_HEAD}\n{_fenced(str(redis.__doc__))}",
        "## Keys of the services\n\nIn partition `p`; `metrics` is the name of the deployment:\n",
        table(("key", "holds"), (row for name in SERVICES for row in _state_keys(name))),
    ]
    return "\n".join(parts)


def _fenced(text: str) -> str:
    """`text` with its indented lines as a block of code."""
    return re.sub(r"((?:^    .*\n)+)", lambda found: f"```text\n{dedent(found[1])}```\n", text, flags=re.MULTILINE)


def _state_keys(service: str) -> Sequence[Sequence[str]]:
    """The rows of the table of state keys in the service's README.md."""
    readme = Path("services", service, "README.md")
    found = _KEYS.search(readme.read_text()) if readme.exists() else None
    return [row.strip("| ").split(" | ") for row in found[1].splitlines()] if found else []
