"""The images that the charts name, built and given to the cluster by the script that BUILD_IMAGE names.

`python -m tests.e2e.images` does so ahead of the tests.
"""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from devkit.demo import CACHE
from devkit.registry import STANDARD
from devkit.servers.kafka import VERSION, fetch
from streamstate.spark import jars
from tests.e2e.cluster import ARCHIVE, GATEWAY, INFRA_TLS, run, together

TAG = "e2e"

WITHOUT_STREAM = (ARCHIVE, GATEWAY)
"""Services with a single image."""

STANDINS = Path("tests/e2e/standins")


def image(name: str) -> str:
    return f"{name}:{TAG}"


def build_services() -> None:
    """The images of the first service come first, so that shared layers are built only once."""
    jars.fetch(CACHE / "spark")
    first, *others = STANDARD
    _build_service(first)
    together(_build_service, [*others, *WITHOUT_STREAM])


def build_infra(scratch: Path) -> dict[str, Any]:
    """Values of the chart of Kafka and Redis. It takes stand-ins when STANDINS asks for them."""
    values = {server: {"tlsSecret": INFRA_TLS} for server in ("kafka", "redis")}
    if os.environ.get("STANDINS"):
        _build_standins(scratch)
        for server, value in values.items():
            value["image"] = image(f"{server}-standin")
    return values


def _build_standins(scratch: Path) -> None:
    shutil.copytree(STANDINS / "kafka", scratch / "kafka")
    fetch(CACHE / "kafka")
    shutil.copytree(CACHE / "kafka", scratch / "kafka" / "libs")
    for jar in jars.retrieve([f"org.apache.kafka:kafka-tools:{VERSION}"], scratch, transitive=False).iterdir():
        shutil.copy(jar, scratch / "kafka" / "libs")
    _build(image("kafka-standin"), str(scratch / "kafka"))
    _build(image("redis-standin"), str(STANDINS / "redis"))


def _build_service(service: str) -> None:
    for target in ("api",) if service in WITHOUT_STREAM else ("api", "stream"):
        _build(image(f"{service}-{target}"), ".", "--target", target, "--build-arg", f"SERVICE={service}")


def _build(name: str, directory: str, *options: str) -> None:
    script = os.environ.get("BUILD_IMAGE", "")
    assert script, "name the script that builds an image: BUILD_IMAGE=tests/e2e/build/kind (or docker)"
    run(script, name, directory, *options)


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        build_infra(Path(scratch))
    build_services()
