"""The chart `suite`: all other charts as a single release, each switched by a value."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, create_model

from devkit.charts.parts import Values
from devkit.registry import release

NAME = "suite"
DESCRIPTION = "All services, the gateway and monitoring as one release; Kafka and Redis for development where asked for"
_OFF = "infra"
_MAKER = "gateway"
"""The chart that creates the shared Secret of the tokens."""


def values(charts: Mapping[str, Values]) -> Values:
    """The values of a suite of `charts`, by their names."""
    switches: dict[str, Any] = {
        chart: (bool, Field(default=chart != _OFF, description=f"whether {chart} is installed")) for chart in charts
    }
    parts: dict[str, Any] = {
        chart: (dict[str, Any], Field(default=_given(chart, part), description=f"values of the chart {chart}"))
        for chart, part in charts.items()
    }
    install = create_model("Install", __base__=Values, __doc__="The charts that are installed.", **switches)
    switch = Field(default=install(), description="which charts are installed")
    return create_model("Suite", __base__=Values, __doc__=DESCRIPTION, install=(install, switch), **parts)()


def _given(chart: str, part: Values) -> dict[str, Any]:
    """The values of a chart as a part of a release: its release's name, after which objects are named."""
    if "fullname_override" not in type(part).model_fields:
        return {}
    access = {} if chart == _MAKER else {"access": {"internalSecret": {"generate": False}}}
    return {"fullnameOverride": release(chart), **access}
