"""Charts as Helm renders them: objects to ask questions of."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from devkit.charts.charts import CHARTS
from devkit.charts.files import FOLDER

Object = dict[str, Any]

SHAPES = [(chart, None) for chart in CHARTS] + [(path.parts[1], path) for path in sorted(FOLDER.glob("*/ci/*.yaml"))]
"""Each chart with its own values, and with each file of its `ci` folder."""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = os.environ.get("HELM", "helm")
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True)


def render(
    chart: str, values: Path | None = None, given: Mapping[str, Any] | None = None, release: str = ""
) -> list[Object]:
    """The objects of `chart`, named after it unless `release` names it, tests and hooks too."""
    files = ["--values", str(values)] if values else []
    more = [part for name, value in (given or {}).items() for part in ("--set-json", f"{name}={json.dumps(value)}")]
    found = helm("template", release or chart, str(FOLDER / chart), *files, *more)
    assert found.returncode == 0, found.stderr
    return [one for one in yaml.safe_load_all(found.stdout) if one]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """(Metadata, spec) of every pod that comes from `objects`, executors too."""
    for one in objects:
        match one["kind"]:
            case "Pod":
                yield one["metadata"], one["spec"]
            case "StatefulSet" | "Deployment" | "Job":
                yield one["spec"]["template"]["metadata"], one["spec"]["template"]["spec"]
            case "ConfigMap" if "pod.yaml" in one["data"]:
                pod = yaml.safe_load(one["data"]["pod.yaml"])
                yield pod["metadata"], pod["spec"]


def environment(objects: list[Object], container: str) -> dict[str, Any]:
    """What the container of this name gets: values, or where they come from."""
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(objects, "ConfigMap")}
    [found] = [one for _, spec in pods(objects) for one in spec["containers"] if one["name"] == container]
    settings: dict[str, Any] = {}
    for source in found.get("envFrom", []):
        settings |= maps[source["configMapRef"]["name"]]
    return settings | {one["name"]: one.get("value", one.get("valueFrom")) for one in found.get("env", [])}
