"""`skaffold.yaml`: builds and deploys the services, without the examples, and forwards the gateway's port."""

from pathlib import Path
from typing import Any

import yaml

from devkit.images.catalogue import Image, images
from devkit.registry import STANDARD, release

PATH = Path("skaffold.yaml")
SCHEMA_VERSION = "v4beta13"
_OPEN = {"access.enabled": False}
"""Of the values of each release: nobody but the developer reaches the cluster."""

_HEAD = """# Made by `make docs` from the folders of services.
# skaffold dev: builds and deploys all of it whenever a file changes, and forwards the gateway to http://127.0.0.1:8080
"""


def document() -> dict[str, Any]:
    """The configuration."""
    return {
        "apiVersion": f"skaffold/{SCHEMA_VERSION}",
        "kind": "Config",
        "metadata": {"name": "streamstate"},
        "build": {"artifacts": [_artifact(image) for image in images(STANDARD) if image.service != "archive"]},
        "deploy": {
            "helm": {
                "flags": {"install": ["--wait"], "upgrade": ["--wait"]},
                "releases": [
                    {"name": "infra", "chartPath": "charts/infra"},
                    *(_release(name, "stream", "api") for name in STANDARD),
                    _release("gateway", "api")
                    | {"setValues": {**_OPEN, "services": {name: name for name in map(release, STANDARD)}}},
                ],
            }
        },
        "verify": [_verify()],
        "portForward": [{"resourceType": "service", "resourceName": "gateway", "port": 8080, "localPort": 8080}],
    }


def text() -> str:
    """The content of the file."""
    return _HEAD + yaml.safe_dump(document(), sort_keys=False)


def _artifact(image: Image) -> dict[str, Any]:
    docker = {"dockerfile": "Dockerfile", "target": image.target, "buildArgs": {"SERVICE": image.service}}
    return {"image": image.name, "docker": docker}


def _release(service: str, *targets: str) -> dict[str, Any]:
    values = {f"{target}.image": f"{{{{.IMAGE_FULLY_QUALIFIED_{service}_{target}}}}}" for target in targets}
    # The chart links to the library chart. Skaffold would add an archive, which takes precedence and gets stale.
    return {
        "name": release(service),
        "chartPath": f"charts/{service}",
        "skipBuildDependencies": True,
        "setValues": dict(_OPEN),
        "setValueTemplates": values,
    }


def _verify() -> dict[str, Any]:
    command = ["python", "-m", "services.smoke", "http://gateway:8080"]
    kafka = [{"name": "STREAMSTATE_KAFKA", "value": "kafka:9092"}]
    container = {"name": "one-play", "image": "gateway-api", "command": command, "env": kafka}
    return {"name": "one-play", "container": container, "executionMode": {"kubernetesCluster": {}}}
