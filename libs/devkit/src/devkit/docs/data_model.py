"""`docs/data-model.md`, made from the source: the keys in Redis."""

import re
from pathlib import Path
from textwrap import dedent

from devkit.registry import SERVICES
from streamstate.state import redis

PATH = Path("docs/data-model.md")
_TABLE = "| state key | holds |\n"
_HEAD = """# Data model

The keys in Redis, readable by `redis-cli`. The state of a partition changes only by a [commit](decisions/commit.md),
together with its offsets. [Stability](stability.md) says how keys may change, and
[operations.py](../libs/streamstate/src/streamstate/state/operations.py) describes the operations of folds and the
reads of views.

## Keys
"""
_SERVICES = """## Keys of the services

A table in the page of each service, for partition `p` of a deployment with the name of the service:
"""


def text() -> str:
    """The whole page."""
    listed = "".join(f"- [{name}](../{readme})\n" for name in SERVICES if (readme := _with_table(name)))
    return f"{_HEAD}\n{_fenced(str(redis.__doc__))}\n{_SERVICES}\n{listed}"


def _fenced(text: str) -> str:
    """`text` with its indented lines as a block of code."""
    return re.sub(r"((?:^    .*\n)+)", lambda found: f"```text\n{dedent(found[1])}```\n", text, flags=re.MULTILINE)


def _with_table(service: str) -> Path | None:
    """The service's README.md, if it has a table of state keys."""
    readme = Path("services", service, "README.md")
    return readme if readme.exists() and _TABLE in readme.read_text() else None
