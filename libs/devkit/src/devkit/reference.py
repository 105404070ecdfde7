"""`docs/reference.md`, made from the source: services, settings, state keys and metrics. `make docs` writes it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from pydantic_settings import BaseSettings

from devkit import command_reference, rights
from devkit.bench.settings import BenchSettings
from devkit.demo import DemoSettings
from devkit.registry import SERVICES, app
from devkit.tables import table
from services.recommendations import graph_metrics
from streamstate.deployment import background, state_metrics
from streamstate.deployment.metrics import Definition
from streamstate.settings import kinds
from streamstate.spark import status
from streamstate.state import redis
from streamstate.state.operations import Operation, Read
from streamstate.view import View
from streamstate.web import freshness
from streamstate.web.server import telemetry

PATH = Path("docs/reference.md")
METRICS = tuple(
    metric
    for module in (telemetry, state_metrics, freshness, background, status, graph_metrics)
    for metric in module.METRICS
)
_KEYS = re.compile(r"^\| state key \| holds \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
SETTINGS: tuple[type[BaseSettings], ...] = (*dict.fromkeys(kinds()), DemoSettings, BenchSettings)


def text() -> str:
    """The whole page."""
    parts = [
        "# Reference\n\nMade from the source by `make docs`.\n",
        "## Services and their topics\n",
        table(("service", "reads", "writes"), map(_service, SERVICES)),
        "## Views\n",
        table(
            ("service", "path", "scope", "answer"), (_view(name, view) for name in SERVICES for view in app(name).views)
        ),
        "## Settings\n\nLists and maps are JSON. A `STREAMSTATE_` variable that is not here ends the process.\n",
        *(f"### {_doc(kind).rstrip('.')}\n\n{_settings(kind)}" for kind in SETTINGS),
        "## What a fold may write, and a view may read\n",
        table(("operation", "effect"), ((kind.__name__, _doc(kind)) for kind in Operation.__args__)),
        table(("read", "answer"), ((kind.__name__, _doc(kind)) for kind in Read.__args__)),
        f"## State keys\n\n{redis.__doc__}",
        table(("key of a service, in partition `p`", "holds"), (row for name in SERVICES for row in _state_keys(name))),
        "## Metrics\n",
        table(("metric", "labels", "what"), map(_metric, METRICS)),
    ]
    return "\n".join(parts)


def _service(name: str) -> tuple[str, str, str]:
    service = app(name)
    derived = (*service.emits, *(totals.topic for totals in service.totals))
    reads, writes = (", ".join(f"`{topic}`" for topic in topics) for topics in (service.topics, derived))
    return name, reads, writes


def _view(service: str, view: View[Any]) -> tuple[str, str, str, str]:
    return service, f"`{view.path.replace('<key>', '{key}')}`", view.scope, view.summary


def _settings(kind: type[BaseSettings]) -> str:
    prefix = kind.model_config.get("env_prefix", "")
    rows = (
        (f"`{prefix}{name.upper()}`", _default(field.default), field.description or "")
        for name, field in kind.model_fields.items()
        if name in kind.__annotations__
    )
    return table(("variable", "default", "what"), rows)


def _default(value: Any) -> str:
    """As the variable would have it: lists and maps are JSON."""
    text = to_json(value, exclude_none=True).decode() if isinstance(value, tuple | dict) else str(value)
    return "" if value is None or not text else f"`{text}`"


def _state_keys(service: str) -> Sequence[Sequence[str]]:
    """The rows of the table of state keys that a service has in its README.md."""
    readme = Path("services", service, "README.md")
    found = _KEYS.search(readme.read_text()) if readme.exists() else None
    return [row.strip("| ").split(" | ") for row in found[1].splitlines()] if found else []


def _metric(metric: Definition) -> tuple[str, str, str]:
    return f"`{metric.name}`", ", ".join(metric.labels), metric.meaning


def _doc(kind: type) -> str:
    """The docstring of `kind` in one line."""
    return " ".join((kind.__doc__ or "").split())


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text())
    command_reference.PATH.write_text(command_reference.text())
    rights.PATH.write_text(rights.text())
