"""`docs/reference.md`, made from the source: settings and metrics. `make docs` writes all such pages."""

from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from pydantic_settings import BaseSettings

from devkit.demo import DemoSettings
from devkit.docs import command_reference, data_model, profile_reference, python_reference, rights
from devkit.docs.tables import docstring, listed
from services.archive import status as archiver
from services.recommendations.graph import metrics as graph_metrics
from streamstate.deployment import background, state_metrics
from streamstate.deployment.metrics import Definition
from streamstate.settings import kinds
from streamstate.spark import status
from streamstate.web import freshness
from streamstate.web.server import telemetry

PATH = Path("docs/reference.md")
METRICS = tuple(
    metric
    for module in (telemetry, state_metrics, freshness, background, status, graph_metrics, archiver)
    for metric in module.METRICS
)
SETTINGS: tuple[type[BaseSettings], ...] = (*dict.fromkeys(kinds()), DemoSettings)

_HEAD = """# Reference

Made from the source by `make docs`. [Rights](rights.md#kafka) lists topics; `/docs` of a gateway describes paths,
parameters, scopes and answers.

## Settings

With defaults; names end with the unit. Lists and maps are JSON. An unknown `STREAMSTATE_` variable ends the process.
"""


def text() -> str:
    """The whole page."""
    parts = [
        _HEAD,
        *(f"### {title}\n\n{''.join(map(_settings, of))}" for title, of in groupby(SETTINGS, _title)),
        "## Metrics\n",
        listed(map(_metric, METRICS)),
    ]
    return "\n".join(parts)


def _title(kind: type[BaseSettings]) -> str:
    return docstring(kind).rstrip(".")


def _settings(kind: type[BaseSettings]) -> str:
    prefix = kind.model_config.get("env_prefix", "")
    return listed(
        (f"{prefix}{name.upper()}{_default(field.default)}", f": {field.description}")
        for name, field in kind.model_fields.items()
        if name in kind.__annotations__
    )


def _default(value: Any) -> str:
    """The default as the text of the variable: lists and maps are JSON, files of the clone relative."""
    text = to_json(value, exclude_none=True).decode() if isinstance(value, tuple | dict) else str(value)
    text = text.removeprefix(f"{Path.cwd()}/")
    return "" if value is None or not text else f"={text}"


def _metric(metric: Definition) -> tuple[str, str]:
    labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
    return f"{metric.name}{labels}", f": {metric.meaning}"


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text())
    for page in (command_reference, data_model, profile_reference, python_reference, rights):
        page.PATH.write_text(page.text())
