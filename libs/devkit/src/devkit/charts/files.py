"""The files of the charts: values with comments, their strict schema, and the shared files of services."""

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from devkit.charts.charts import (
    SUITE,
    SUITE_DESCRIPTION,
    AnyService,
    Infra,
    Pods,
    Replicated,
    ServiceValues,
    charts,
)
from devkit.charts.monitoring import Monitoring
from devkit.charts.parts import VERSION, Values
from devkit.charts.variables import properties
from devkit.docs.tables import table

FOLDER = Path("charts")
WIDTH = 120
_MADE = "Made by `make docs` from libs/devkit/src/devkit/charts."

_CHART = f"""# {_MADE}
apiVersion: v2
name: {{name}}
description: {{description}}
type: application
version: {VERSION}
appVersion: {VERSION}
kubeVersion: ">=1.30.0-0"
"""
_DEPENDENCY = f"""  - name: {{name}}
    version: {VERSION}
    repository: file://../{{name}}
"""
_IGNORED = f"# {_MADE} What a package leaves out.\nci/\nservice/\n*.tgz\n"
_ANY = "Any service. The gateway finds a release by its value `services`: `--set services.RELEASE=RELEASE`."
_SHARED = "streamstate/service"
"""The folder of the files that the charts of services share by links."""
_DESCRIPTIONS = {SUITE: SUITE_DESCRIPTION, "infra": Infra.__doc__, "monitoring": Monitoring.__doc__}

# Keys that Helm adds to the values of a chart: for all charts, the library chart, and a parent's switches.
HELMS = {**{key: {"type": "object"} for key in ("global", "streamstate", "tags")}, "enabled": {"type": "boolean"}}


@cache
def files() -> Mapping[str, str]:
    """The text of each file, by its path in the folder of charts."""
    texts: dict[str, str] = {}
    for chart, values in charts().items():
        description = _DESCRIPTIONS.get(chart) or importlib.import_module(f"services.{chart}").__doc__ or ""
        texts[f"{chart}/Chart.yaml"] = _chart(chart, description)
        texts |= {f"{chart}/{path}": text for path, text in _of_values(chart, values, description).items()}
    shared = _of_values("SERVICE", AnyService(), _ANY) | {"values.yaml": _values(ServiceValues())}
    texts |= {f"{_SHARED}/{path}": text for path, text in shared.items()}
    # A link replaces an equal file.
    for path in links():
        texts.pop(path, None)
    return texts


def _of_values(chart: str, values: Values, description: str) -> dict[str, str]:
    """The files about a chart's values, and its templates."""
    texts = {
        "values.yaml": _values(values),
        "values.schema.json": _json(schema(chart, type(values))) + "\n",
        "README.md": _readme(chart, values, description),
        ".helmignore": _IGNORED,
    }
    if isinstance(values, Pods):
        texts["templates/all.yaml"] = f'{{{{ include "streamstate.{values.template}" . }}}}\n'
        texts["templates/NOTES.txt"] = f'{{{{ include "streamstate.{values.notes}" . }}}}\n'
    return texts


def _json(value: Any, indent: str = "") -> str:
    """`value` as JSON: a part that fits into a line takes a line."""
    line, inner = json.dumps(value), f"{indent} "
    if len(inner) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        parts, (begin, end) = [_json(each, inner) for each in value], "[]"
    else:
        parts, (begin, end) = [f"{json.dumps(name)}: {_json(each, inner)}" for name, each in value.items()], "{}"
    return f"{begin}\n" + ",\n".join(f"{inner}{part}" for part in parts) + f"\n{indent}{end}"


def _values(values: BaseModel) -> str:
    return f"# {_MADE}\n" + "\n".join(_lines(values, "")) + "\n"


@cache
def links() -> Mapping[str, str]:
    """Where each link leads, by its path in the folder of charts."""
    parts = {f"{chart}/charts/{part}": f"../../{part}" for chart in charts() for part in dependencies(chart)}
    shared = ("values.schema.json", "README.md", ".helmignore", "templates/NOTES.txt")
    own = ("values.yaml", "templates/all.yaml")
    for chart, values in charts().items():
        if isinstance(values, ServiceValues):
            for path in shared if isinstance(values, Replicated) else (*shared, *own):
                parts[f"{chart}/{path}"] = f"{'../' * (1 + path.count('/'))}{_SHARED}/{path}"
    return parts


def dependencies(chart: str) -> Sequence[str]:
    """The subcharts of a chart."""
    match charts()[chart]:
        case Pods():
            return ("streamstate",)
        case values if chart == SUITE:
            return [name for name in type(values).model_fields if name != "install"]
        case _:
            return ()


def _chart(chart: str, description: str) -> str:
    """`Chart.yaml`. A part of the suite is installed when its switch says so."""
    text = _CHART.format(name=chart, description=json.dumps(description))
    parts = [_DEPENDENCY.format(name=part) for part in dependencies(chart)]
    if chart == SUITE:
        parts = [
            f"{part}    condition: install.{name}\n" for part, name in zip(parts, dependencies(chart), strict=True)
        ]
    return text + ("dependencies:\n" if parts else "") + "".join(parts)


class _Untitled(GenerateJsonSchema):
    """A title would only repeat the name."""

    def field_title_should_be_set(self, *_: object) -> bool:
        return False


def schema(chart: str, of: type[BaseModel] | None = None) -> dict[str, Any]:
    """The JSON schema of a chart's values; the charts of services share a schema."""
    kind = of or type(charts()[chart])
    values = (AnyService if issubclass(kind, ServiceValues) else kind).model_json_schema(
        mode="serialization", schema_generator=_Untitled
    )
    if "settings" in values["properties"]:
        values["properties"]["settings"] |= {"additionalProperties": False, "properties": properties(chart)}
    values["properties"] |= HELMS
    # Every value has a default, so none is required.
    values.pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": _MADE} | values


def _lines(values: BaseModel, indent: str) -> Iterator[str]:
    """The lines of `values.yaml`: each key with its description as a comment."""
    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        yield f"{indent}# {field.description}"
        if isinstance(value, BaseModel):
            yield f"{indent}{field.serialization_alias}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{field.serialization_alias}: {json.dumps(to_jsonable_python(value))}"


_HEAD = """<!-- {made} -->
# {chart}

{description}

    helm install {chart} charts/{chart}
    helm install {chart} oci://REGISTRY/{chart} --version {version}

What the values of all charts mean for a deployment: [Charts](../README.md).

"""
_OTHERS = "\n`settings` takes every setting of the [reference](../../docs/reference.md) that has no value here.\n"


def _readme(chart: str, values: Values, description: str) -> str:
    """The README of a chart: its installation, and a table of its values."""
    rows = table(("value", "default", "what"), _rows(values, ""))
    head = _HEAD.format(chart=chart, description=description, made=_MADE, version=VERSION)
    return head + rows + (_OTHERS if "settings" in type(values).model_fields else "")


def _rows(values: BaseModel, path: str) -> Iterator[tuple[str, str, str]]:
    for name, field in type(values).model_fields.items():
        value, key = getattr(values, name), f"{path}{field.serialization_alias}"
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{key}.")
        else:
            default = json.dumps(to_jsonable_python(value))
            yield f"`{key}`", f"`{default}`", (field.description or "").replace("|", "\\|")
