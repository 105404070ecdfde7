"""The settings of a chart's processes: each is a value of the chart, with the type and bounds of its class."""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import Field

from streamstate.settings import PREFIX, ApiSettings, CommandSettings, Settings, StreamSettings, kinds

_TEMPLATES = [
    Path("charts/streamstate/templates", name) for name in ("_settings.tpl", "_containers.tpl", "_transport.tpl")
]
_ARCHIVE = Path("charts/streamstate/templates/_archive.tpl")
"""Gives variables of the archiver, which are settings of a service too."""
_LEFT_OUT = ("title", "default")
"""Omitted members of a schema. The default may differ between the processes of a chart."""


def setting(kind: type[Settings], name: str, default: Any = None) -> Any:
    """The field of the setting `name` in `kind`, as a value of a chart, with another default if given."""
    field = copy(kind.model_fields[name])
    if default is not None:
        field.default = default
    return field


def value(default: Any, description: str, **rules: Any) -> Any:
    """The field of a value, with rules such as `ge`."""
    return Field(default=default, description=description, **rules)


def processes(chart: str) -> list[type[Settings]]:
    """The settings of the processes of a chart; the charts of services share the settings of all services."""
    own = {name: [kind for kind in kinds() if kind.__module__ == f"services.{name}.settings"] for name in _APART}
    if chart in own:
        return [*_APART[chart], *own[chart]]
    services = [
        kind for kind in kinds() if kind.__module__.startswith("services.") and kind not in chain(*own.values())
    ]
    return [StreamSettings, ApiSettings, *services]


_APART: Mapping[str, Sequence[type[Settings]]] = {"gateway": [], "archive": [CommandSettings]}
"""The charts of processes that are no services, and settings of the library that belong to them."""


def properties(chart: str) -> dict[str, Any]:
    """The JSON schema of each setting without a chart value of its own, by the variable without its prefix."""
    templates = [*_TEMPLATES, *([_ARCHIVE] if chart == "archive" else [])]
    given = {name for path in templates for name in re.findall(PREFIX + "([A-Z_]+)", path.read_text())}
    schemas = {
        name.upper(): schema
        for kind in processes(chart)
        for name, schema in kind.model_json_schema()["properties"].items()
        if name.upper() not in given
    }
    return {
        name: {key: value for key, value in schema.items() if key not in _LEFT_OUT} for name, schema in schemas.items()
    }
