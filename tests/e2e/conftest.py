"""One deployment for all of it: infra, every service that there is, and the gateway, in a namespace of its own."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from devkit.registry import STANDARD
from services.events import KINDS
from tests.e2e import feed
from tests.e2e.cluster import (
    FEED,
    NAMESPACE,
    create_secrets,
    eventually,
    forwarded,
    get,
    helm,
    kubectl,
    run,
    send,
    upgrade,
)
from tests.e2e.images import AT_ONCE, GATEWAY, INFRA, build_infra, build_services, image

# So that much fits on a small machine.
SMALL: dict[str, Any] = {"resources": {"requests": {"cpu": "20m", "memory": "64Mi"}}}


def values_of(service: str, **more: Any) -> dict[str, Any]:
    stream = {"image": image(f"{service}-stream"), "slots": 1, "driverMemory": "512m", **SMALL}
    return {"stream": stream, "api": {"image": image(f"{service}-api"), **SMALL}, **more}


@dataclass
class Deployment:
    """What runs, the gateway's URL, how many events were sent, and an image for Jobs: any of the APIs will do."""

    url: str
    infra: dict[str, Any]
    image: str
    sent: int = 0

    def feed(self, count: int, topic: str = "listening-events") -> None:
        """Send the next `count` events, or the first ones to another topic."""
        first = self.sent if topic == "listening-events" else 0
        send(self.image, topic, first, count)
        if topic == "listening-events":
            self.sent += count

    def settle(self) -> float:
        """Wait until all that was sent is counted, and has names; seconds."""
        took = eventually(lambda: plays(self.url) == self.sent, f"{self.sent} events to be counted")
        named = [f"{self.url}/v1/{kind}/{key}" for kind in KINDS for key in feed.KEYS]
        eventually(lambda: all(get(url)[0] == 200 for url in named), "the names")
        return took


def plays(url: str) -> int:
    """How many events are counted, over all users."""
    total = 0
    for user in range(1, 41):
        status, profile = get(f"{url}/v1/users/{user}/metrics")
        total += profile["eventCount"] if status == 200 else 0
    return total


def install(service: str) -> None:
    upgrade(service, service, values_of(service, replicas=2 if service == "metrics" else 1))


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    subprocess.run(["kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found"], check=True)
    run("kubectl", "create", "namespace", NAMESPACE)
    run("kubectl", "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    create_secrets()
    clock = Clock()
    infra = build_infra(tmp_path_factory.mktemp("standins"))
    build_services()
    clock.say("images built and loaded")
    upgrade(INFRA, INFRA, infra, "--wait-for-jobs")
    clock.say("Kafka, Redis and topics")
    kubectl("create", "configmap", "feed", f"--from-file={FEED}")
    with ThreadPoolExecutor(AT_ONCE) as executor:
        list(executor.map(install, STANDARD))
    clock.say("the services")
    gateway = {
        "api": {"image": image("gateway-api"), **SMALL},
        "services": {name: name for name in STANDARD},
        "access": {"keysSecret": {"name": "callers"}},
    }
    upgrade(GATEWAY, GATEWAY, gateway)
    clock.say("the gateway")
    with forwarded(f"service/{GATEWAY}") as url:
        yield Deployment(url, infra, image("metrics-api"))
    for release in helm("list", "--short").split():
        helm("uninstall", release, "--wait")
    eventually(lambda: left() == [], "nothing of it to be left")
    run("kubectl", "delete", "namespace", NAMESPACE)


def left() -> list[str]:
    """What releases left behind."""
    kinds = "all,configmap,role,rolebinding,networkpolicy,pdb"
    return kubectl("get", kinds, "--output", "name", "--selector", "app.kubernetes.io/part-of=streamstate").split()


class Clock:
    """Prints how long each step took."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def say(self, what: str) -> None:
        now = time.monotonic()
        print(f"\n{now - self._last:6.1f} s  {what}", end="")
        self._last = now
