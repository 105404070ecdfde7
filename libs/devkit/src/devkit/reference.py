"""`docs/reference.md`, made from the source: settings and metrics. `make docs` writes it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from pydantic_settings import BaseSettings

from devkit.bench.settings import BenchSettings
from devkit.demo import DemoSettings
from devkit.registry import SERVICES, app
from services.recommendations import graph_metrics
from streamstate.app import View
from streamstate.deployment.metrics import Definition
from streamstate.settings import (
    PREFIX,
    ApiSettings,
    GatewaySettings,
    HttpSettings,
    KafkaSettings,
    ServiceSettings,
    StreamSettings,
)
from streamstate.spark import status
from streamstate.state.operations import Operation
from streamstate.state.reads import Read
from streamstate.web.server.telemetry import METRICS

PATH = Path("docs/reference.md")


def text() -> str:
    """The whole page."""
    parts = [
        "# Reference\n\nMade from the source by `make docs`.\n",
        "## Services and their topics\n",
        _table(("service", "reads", "writes"), map(_service, SERVICES)),
        "## Views\n",
        _table(("service", "path", "answer"), (_view(name, view) for name in SERVICES for view in app(name).views)),
        "## Settings of every process\n",
        _settings(KafkaSettings, PREFIX),
        "## Settings of a service, stream and API alike\n",
        _settings(ServiceSettings, PREFIX),
        "## Settings of a stream\n",
        _settings(StreamSettings, PREFIX),
        "## Settings of an API and of the gateway\n",
        _settings(HttpSettings, PREFIX),
        "## Settings of an API\n",
        _settings(ApiSettings, PREFIX),
        *(
            f"## Settings of {name}, stream and API\n\n{_settings(service.settings, PREFIX)}"
            for name, service in SERVICES.items()
            if service.settings
        ),
        "## Settings of the gateway\n",
        _settings(GatewaySettings, PREFIX),
        "## Settings of the demo\n",
        _settings(DemoSettings, ""),
        "## Settings of the bench\n",
        _settings(BenchSettings, ""),
        "## What a fold may write, and a view may read\n",
        _table(("operation", "effect"), map(_described, Operation.__args__)),
        _table(("read", "answer"), map(_described, Read.__args__)),
        "## Metrics\n",
        _table(("metric", "labels", "what"), map(_metric, (*METRICS, *status.METRICS, *graph_metrics.METRICS))),
    ]
    return "\n".join(parts)


def _service(name: str) -> tuple[str, str, str]:
    service = SERVICES[name]
    reads, writes = (", ".join(f"`{topic.name}`" for topic in topics) for topics in (service.inputs, service.outputs))
    return name, reads, writes


def _view(service: str, view: View[Any]) -> tuple[str, str, str]:
    return service, f"`{view.path.replace('<key>', '{key}')}`", view.summary


def _settings(kind: type[BaseSettings], prefix: str) -> str:
    rows = (
        (f"`{prefix}{name.upper()}`", f"`{_default(field.default)}`", field.description or "")
        for name, field in kind.model_fields.items()
        if name in kind.__annotations__
    )
    return _table(("variable", "default", "what"), rows)


def _default(value: Any) -> Any:
    """As it would be given: settings in a list are JSON."""
    return to_json(value, exclude_none=True).decode() if isinstance(value, tuple) else value


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _metric(metric: Definition) -> tuple[str, str, str]:
    return f"`{metric.name}`", ", ".join(metric.labels), metric.meaning


def _described(kind: type) -> tuple[str, str]:
    """The name of `kind`, and its docstring in one line."""
    return kind.__name__, " ".join((kind.__doc__ or "").split())


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(text())
