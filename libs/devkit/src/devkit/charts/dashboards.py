"""Grafana's dashboards: all services, and a single service selected by a variable."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from devkit.charts.panels import OVERVIEW, SERVICE, Panel
from devkit.docs.reference import METRICS

SCHEMA_VERSION = 39
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_MEANINGS = {metric.name: metric.meaning for metric in METRICS}


def dashboards() -> Mapping[str, Mapping[str, Any]]:
    """Grafana's JSON model of each, by its uid."""
    service = {
        "name": "service",
        "label": "Service",
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": "label_values(streamstate_requests_total, service)", "refId": "service"},
        "refresh": 2,
        "sort": 1,
    }
    return {
        "streamstate-overview": _dashboard("streamstate-overview", "Streamstate: all services", OVERVIEW),
        "streamstate-service": _dashboard("streamstate-service", "Streamstate: one service", SERVICE, service),
    }


def metrics_of(query: str) -> set[str]:
    """The project's metrics in `query`, a histogram without the suffix of its buckets."""
    names: list[str] = re.findall(r"\b(?:streamstate|recommendations)_[a-z_]+", query)
    return {name.removesuffix("_bucket") for name in names}


def _dashboard(uid: str, title: str, panels: Sequence[Panel], *variables: Mapping[str, Any]) -> Mapping[str, Any]:
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": uid,
        "title": title,
        "tags": ["streamstate"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [datasource, *variables]},
        "links": [{"type": "dashboards", "tags": ["streamstate"], "title": "Streamstate", "keepTime": True}],
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> Mapping[str, Any]:
    row, column = divmod(number, _COLUMNS)
    names = sorted(set().union(*map(metrics_of, panel.queries.values())))
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": "\n\n".join(f"{name}: {_MEANINGS[name]}" for name in names),
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }
