"""Charts as Helm renders them: objects to ask questions of."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from devkit import registry
from devkit.charts.charts import charts
from devkit.charts.files import FOLDER

Object = dict[str, Any]

SHAPES = [(chart, None) for chart in charts()] + [(path.parts[1], path) for path in sorted(FOLDER.glob("*/ci/*.yaml"))]
"""Each chart with its own values, and with each file of its `ci` folder."""


KUBERNETES = "1.33"
"""What charts are rendered for: a Helm that is compiled from its module takes another for granted."""


def helm(command: str, *arguments: str, program: str = "HELM") -> subprocess.CompletedProcess[str]:
    """`program` is the name of the variable with the path."""
    version = ["--kube-version", KUBERNETES] if command in ("template", "lint") else []
    called = [os.environ.get(program, "helm"), command, *version, *arguments]
    return subprocess.run(called, check=False, capture_output=True, text=True)


def render(
    chart: str, values: Path | None = None, given: Mapping[str, Any] | None = None, release: str = ""
) -> list[Object]:
    """The objects of `chart`, tests and hooks included; `release` is by default the chart's usual name."""
    files = ["--values", str(values)] if values else []
    more = [part for name, value in (given or {}).items() for part in ("--set-json", f"{name}={json.dumps(value)}")]
    return parsed(_rendered(release or registry.release(chart), str(FOLDER / chart), *files, *more))


@cache
def _rendered(*arguments: str) -> str:
    rendered = helm("template", *arguments)
    assert rendered.returncode == 0, rendered.stderr
    return rendered.stdout


def parsed(text: str) -> list[Object]:
    """The objects of a manifest."""
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def identities(objects: Iterable[Object]) -> set[tuple[str, str]]:
    """Kind and name of each."""
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [item for item in objects if item["kind"] == kind]


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """(Metadata, spec) of every pod that comes from `objects`, executors too."""
    for item in objects:
        match item["kind"]:
            case "Pod":
                yield item["metadata"], item["spec"]
            case "StatefulSet" | "Deployment" | "Job":
                yield item["spec"]["template"]["metadata"], item["spec"]["template"]["spec"]
            case "CronJob":
                template = item["spec"]["jobTemplate"]["spec"]["template"]
                yield template["metadata"], template["spec"]
            case "ConfigMap" if "pod.yaml" in item["data"]:
                pod = yaml.safe_load(item["data"]["pod.yaml"])
                yield pod["metadata"], pod["spec"]


def environment(objects: list[Object], container: str) -> dict[str, Any]:
    """The environment of the container `name`: values, or their sources."""
    maps = {item["metadata"]["name"]: item["data"] for item in of_kind(objects, "ConfigMap")}
    [container_spec] = [item for _, spec in pods(objects) for item in spec["containers"] if item["name"] == container]
    settings: dict[str, Any] = {}
    for source in container_spec.get("envFrom", []):
        settings |= maps[source["configMapRef"]["name"]]
    return settings | {item["name"]: item.get("value", item.get("valueFrom")) for item in container_spec.get("env", [])}
