"""Grafana's dashboards of the chart `monitoring`."""

import json
import re
from pathlib import Path
from typing import Any

DASHBOARDS: dict[str, Any] = {
    path.stem: json.loads(path.read_text()) for path in sorted(Path("charts/monitoring/dashboards").resolve().iterdir())
}


def metrics_of(query: str) -> set[str]:
    """The project's metrics in `query`, a histogram without the suffix of its buckets."""
    names: list[str] = re.findall(r"\b(?:streamstate|recommendations)_[a-z_]+", query)
    return {name.removesuffix("_bucket") for name in names}
