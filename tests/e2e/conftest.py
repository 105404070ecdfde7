"""A deployment of infra, all services and the gateway, in a namespace of its own."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from devkit.registry import STANDARD, release
from devkit.topics import configurations
from services.events import KINDS
from tests.e2e import feed
from tests.e2e.cluster import (
    GATEWAY,
    GATEWAY_TLS,
    INFRA,
    INFRA_TLS,
    INSTANCES_NAME,
    INSTANCES_TLS,
    REDIS,
    Api,
    Namespace,
    together,
)
from tests.e2e.images import build_infra, build_services, image
from tests.waiting import until

# So that much fits on a small machine.
SMALL: dict[str, Any] = {"resources": {"requests": {"cpu": "20m", "memory": "64Mi"}}}

TOOLS = image("recommendations-api")
"""The image with the packages of all services."""

EU = "listening-events-eu"
"""The topic of another release of metrics."""

_INSTANCES = {"name": INSTANCES_TLS}
TO_INSTANCES = {"caSecret": _INSTANCES, "certificateSecret": _INSTANCES, "name": INSTANCES_NAME}
TO_REDIS = {"url": REDIS, "caSecret": {"name": INFRA_TLS}}
TRANSPORT: dict[str, Any] = {
    "tls": {"certificateSecret": _INSTANCES, "clientCaSecret": _INSTANCES, "instances": TO_INSTANCES},
    "kafka": {"security": "SSL", "caSecret": {"name": INFRA_TLS}},
    "redis": TO_REDIS,
}


def values_of(service: str, **more: Any) -> dict[str, Any]:
    stream = {"image": image(f"{service}-stream"), "slots": 1, "driverMemory": "512m", **SMALL}
    return {"stream": stream, "api": {"image": image(f"{service}-api"), **SMALL}, **TRANSPORT, **more}


@dataclass
class Installation:
    """What runs, and how many events were sent."""

    namespace: Namespace
    gateway: Api
    infra: dict[str, Any]
    sent: int = 0

    def feed(self, count: int) -> None:
        """Send the next `count` events."""
        self.namespace.send("listening-events", self.sent, count)
        self.sent += count

    def settle(self) -> None:
        """Wait until all that was sent is counted, and has names."""
        until(lambda: plays(self.gateway) == self.sent, f"{self.sent} events to be counted")
        named = [f"/v1/{kind}/{key}" for kind in KINDS for key in feed.KEYS]
        until(lambda: all(self.gateway.get(path)[0] == 200 for path in named), "the names")


def plays(api: Api) -> int:
    """How many events are counted, over all users."""
    users = "&".join(f"metrics={user}" for user in range(1, feed.USERS + 1))
    status, answer = api.get(f"/v1/many?{users}")
    return sum(each["eventCount"] for each in answer["metrics"].values() if each) if status == 200 else 0


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    namespace = Namespace("streamstate-test", tmp_path_factory.mktemp("namespace") / "ca")
    namespace.create()
    infra = build_infra(tmp_path_factory.mktemp("standins"))
    # The command of the chart starts a JVM for each topic: most topics are made by another.
    own = configurations(())
    infra["kafka"]["topics"] = {**dict.fromkeys({*configurations()} - {*own}), EU: {}, "metrics-eu-dlq": {}}
    with ThreadPoolExecutor(1) as executor:
        installed = executor.submit(namespace.upgrade, INFRA, INFRA, infra, "--wait-for-jobs")
        build_services()
        namespace.start_operator(TOOLS)
        installed.result()
    others = {topic: of for topic, of in configurations(STANDARD).items() if topic not in own}
    namespace.manage_topics("create", json.dumps(others))

    values = {service: values_of(service, replicas=2 if service == "metrics" else 1) for service in STANDARD}
    values[GATEWAY] = {
        "api": {"image": image("gateway-api"), **SMALL},
        "services": {name: name for name in map(release, STANDARD)},
        "access": {"keysSecret": {"name": "callers"}, "limitsRedis": TO_REDIS},
        "tls": {"certificateSecret": {"name": GATEWAY_TLS}, "instances": TO_INSTANCES},
    }
    together(lambda chart: namespace.upgrade(release(chart), chart, values[chart]), values)
    with namespace.forwarded(f"service/{GATEWAY}") as gateway:
        yield Installation(namespace, gateway, infra)
    namespace.uninstall()
