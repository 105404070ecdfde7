"""The README of each chart: its installation, and a table of its values."""

import json
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from devkit.charts.parts import Values
from devkit.tables import table

_HEAD = """<!-- {made} -->
# {chart}

{description}

    helm install {chart} charts/{chart}
    helm install {chart} oci://REGISTRY/{chart} --version {version}

What the values of all charts mean for a deployment: [Charts](../README.md).

"""
_OTHERS = "\n`settings` takes every setting of the [reference](../../docs/reference.md) that has no value here.\n"


def text(chart: str, values: Values, description: str, made: str, version: str) -> str:
    """The page of a chart. `made` is the notice of generated files."""
    rows = table(("value", "default", "what"), _rows(values, ""))
    head = _HEAD.format(chart=chart, description=description, made=made, version=version)
    return head + rows + (_OTHERS if "settings" in type(values).model_fields else "")


def _rows(values: BaseModel, path: str) -> Iterator[tuple[str, str, str]]:
    for name, field in type(values).model_fields.items():
        value, key = getattr(values, name), f"{path}{field.serialization_alias}"
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{key}.")
        else:
            default = json.dumps(to_jsonable_python(value))
            yield f"`{key}`", f"`{default}`", (field.description or "").replace("|", "\\|")
