"""`skaffold.yaml`: every service that there is, built, deployed and forwarded."""

import json
from pathlib import Path
from typing import Any

from devkit.registry import SERVICES

PATH = Path("skaffold.yaml")
SCHEMA_VERSION = "v4beta13"
_HEAD = """# Made by `make docs` from the services that there are.
# skaffold dev: builds and deploys all of it whenever a file changes, and forwards the gateway to http://127.0.0.1:8080
"""


def document() -> dict[str, Any]:
    """The whole of it."""
    images = [(name, target) for name in SERVICES for target in ("stream", "api")] + [("gateway", "api")]
    return {
        "apiVersion": f"skaffold/{SCHEMA_VERSION}",
        "kind": "Config",
        "metadata": {"name": "streamstate"},
        "build": {"artifacts": [_artifact(*image) for image in images]},
        "deploy": {
            "helm": {
                "flags": {"install": ["--wait"], "upgrade": ["--wait"]},
                "releases": [
                    {"name": "infra", "chartPath": "charts/infra"},
                    *(_release(name, "stream", "api") for name in SERVICES),
                    _release("gateway", "api") | {"setValues": {"services": {name: name for name in SERVICES}}},
                ],
            }
        },
        "verify": [_verify()],
        "portForward": [{"resourceType": "service", "resourceName": "gateway", "port": 8080, "localPort": 8080}],
    }


def text() -> str:
    """As it is written: JSON's values in YAML's lines, a list item in one line."""
    return _HEAD + "\n".join(_lines(document(), "")) + "\n"


def _artifact(service: str, target: str) -> dict[str, Any]:
    docker = {"dockerfile": "Dockerfile", "target": target, "buildArgs": {"SERVICE": service}}
    return {"image": f"{service}-{target}", "docker": docker}


def _release(service: str, *targets: str) -> dict[str, Any]:
    values = {f"{one}.image": f"{{{{.IMAGE_FULLY_QUALIFIED_{service}_{one}}}}}" for one in targets}
    return {"name": service, "chartPath": f"charts/{service}", "setValueTemplates": values}


def _verify() -> dict[str, Any]:
    command = ["python", "-m", "services.gateway.smoke", "http://gateway:8080"]
    kafka = [{"name": "STREAMSTATE_KAFKA", "value": "kafka:9092"}]
    container = {"name": "one-play", "image": "gateway-api", "command": command, "env": kafka}
    return {"name": "one-play", "container": container, "executionMode": {"kubernetesCluster": {}}}


def _lines(value: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, one in value.items():
        if isinstance(one, dict):
            lines += [f"{indent}{name}:", *_lines(one, indent + "  ")]
        elif isinstance(one, list) and one and isinstance(one[0], dict):
            lines += [f"{indent}{name}:", *(f"{indent}  - {json.dumps(item)}" for item in one)]
        else:
            lines.append(f"{indent}{name}: {json.dumps(one)}")
    return lines
