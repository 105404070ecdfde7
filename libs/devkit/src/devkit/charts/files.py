"""The files of the charts: values with comments, their strict schema, and what is the same for every service."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from devkit.charts.charts import CHARTS, Pods
from devkit.charts.parts import VERSION, Values

FOLDER = Path("charts")
_MADE = "Made by `make docs` from libs/devkit/src/devkit/charts."

_CHART = f"""# {_MADE}
apiVersion: v2
name: {{name}}
description: {{description}}
type: application
version: {VERSION}
appVersion: {VERSION}
dependencies:
  - name: streamstate
    version: {VERSION}
    repository: file://../streamstate
"""

# Helm itself puts these two beside a chart's own: what is meant for all charts, and the library's share.
_HELMS = {"global": {"type": "object"}, "streamstate": {"type": "object"}}


def files() -> dict[str, str]:
    """The text of each file, by its path in the folder of charts."""
    texts: dict[str, str] = {}
    for name, values in CHARTS.items():
        texts[f"{name}/values.yaml"] = f"# {_MADE}\n" + "\n".join(_lines(values, "")) + "\n"
        texts[f"{name}/values.schema.json"] = json.dumps(schema(values), indent=2) + "\n"
        if isinstance(values, Pods):
            description = importlib.import_module(f"services.{name}").__doc__
            texts[f"{name}/Chart.yaml"] = _CHART.format(name=name, description=json.dumps(description))
            texts[f"{name}/templates/all.yaml"] = f'{{{{ include "streamstate.{values.template}" . }}}}\n'
            texts[f"{name}/templates/NOTES.txt"] = '{{ include "streamstate.notes" . }}\n'
    return texts


def links() -> dict[str, str]:
    """Where each link leads, by its path in the folder of charts."""
    return {
        f"{name}/charts/streamstate": "../../streamstate" for name, values in CHARTS.items() if isinstance(values, Pods)
    }


def schema(values: Values) -> dict[str, object]:
    """The JSON schema of a chart's values."""
    found = type(values).model_json_schema(mode="serialization")
    found["properties"] |= _HELMS
    # A chart has all its values by default: what is given is only ever a part.
    found.pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": _MADE} | found


def _lines(values: BaseModel, indent: str) -> Iterator[str]:
    """The lines of `values.yaml`: a comment and a value for each key."""
    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        yield f"{indent}# {field.description}"
        if isinstance(value, BaseModel):
            yield f"{indent}{field.serialization_alias}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{field.serialization_alias}: {json.dumps(to_jsonable_python(value))}"
