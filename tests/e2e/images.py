"""The images that the charts name, built and given to the cluster by the script that BUILD_IMAGE names."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devkit.demo import CACHE
from devkit.kafka_server import VERSION, fetch
from devkit.registry import STANDARD
from streamstate.spark import jars
from tests.e2e.cluster import GATEWAY, run

TAG = "e2e"
AT_ONCE = 2
"""How many images are built, or services installed, at the same time."""

STANDINS = Path("tests/e2e/standins")


def image(name: str) -> str:
    return f"{name}:{TAG}"


def build_services() -> None:
    """Those of the first service have all that the others share, which is so built only once."""
    jars.fetch(CACHE / "spark")
    first, *others = STANDARD
    _build_service(first)
    with ThreadPoolExecutor(AT_ONCE) as executor:
        list(executor.map(_build_service, [*others, GATEWAY]))


def build_infra(scratch: Path) -> dict[str, Any]:
    """Values by which the chart of Kafka and Redis takes stand-ins; nothing when STANDINS does not ask for them."""
    if not os.environ.get("STANDINS"):
        return {}
    shutil.copytree(STANDINS / "kafka", scratch / "kafka")
    fetch(CACHE / "kafka")
    shutil.copytree(CACHE / "kafka", scratch / "kafka" / "libs")
    for jar in jars.retrieve([f"org.apache.kafka:kafka-tools:{VERSION}"], scratch, transitive=False).iterdir():
        shutil.copy(jar, scratch / "kafka" / "libs")
    _build(image("kafka-standin"), str(scratch / "kafka"))
    _build(image("redis-standin"), str(STANDINS / "redis"))
    return {"kafka": {"image": image("kafka-standin")}, "redis": {"image": image("redis-standin")}}


def _build_service(service: str) -> None:
    for target in ("api",) if service == GATEWAY else ("api", "stream"):
        _build(image(f"{service}-{target}"), ".", "--target", target, "--build-arg", f"SERVICE={service}")


def _build(name: str, directory: str, *options: str) -> None:
    script = os.environ.get("BUILD_IMAGE", "")
    assert script, "name the script that builds an image: BUILD_IMAGE=tests/e2e/build/kind (or docker)"
    run(script, name, directory, *options)
