"""kubectl and helm against the cluster of the current kubeconfig, and reads through a port-forward."""

import json
import os
import random
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from devkit.child_process import LOCALHOST, Child, free_port
from streamstate.access import internal, keys
from tests.e2e import feed

NAMESPACE = "streamstate-test"
FEED = Path(feed.__file__)
KEY, TOKEN = keys.generate(), secrets.token_urlsafe(32)
HEADERS = {"Authorization": f"Bearer {KEY}", internal.HEADER: TOKEN}
"""What the gateway asks for, and what an instance does."""


def run(*command: str, stdin: str | None = None) -> str:
    """What the command prints; fails with what it says."""
    result = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}"
    return result.stdout


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    return run("kubectl", "--namespace", NAMESPACE, *arguments, stdin=stdin)


def helm(*arguments: str) -> str:
    return run(os.environ.get("HELM", "helm"), "--namespace", NAMESPACE, *arguments)


def create_secrets() -> None:
    """The key of these tests, and the token of all releases, which are installed at the same time."""
    entry = {"name": "test", "sha256": keys.digest(KEY), "scopes": ["admin"]}
    limits = {"requests_per_s": 10_000, "cost_per_s": 100_000}
    for name, data in (("callers", {"keys": json.dumps(entry | limits)}), ("streamstate-internal", {"tokens": TOKEN})):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        kubectl("apply", "--filename", "-", stdin=json.dumps(secret))


def upgrade(release: str, chart: str, values: dict[str, Any], *more: str) -> None:
    """Install or upgrade, and wait until all of it is ready."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        arguments = ("--install", release, f"charts/{chart}", "--values", file.name, "--timeout", "5m", "--wait", *more)
        helm("upgrade", *arguments)


def send(image: str, topic: str, first: int, count: int) -> None:
    """Let a Job send events `first` to `first + count`, and wait until Kafka has them."""
    run_job(f"feed-{topic}-{first}", image, "python", "/feed/feed.py", "kafka:9092", topic, str(first), str(count))


def run_job(name: str, image: str, *command: str, **environment: str) -> str:
    """What a Job with this command says when it is done; fails when the command does."""
    container = {
        "name": "job",
        "image": image,
        "command": command,
        "env": [{"name": variable, "value": value} for variable, value in environment.items()],
        "volumeMounts": [{"name": "feed", "mountPath": "/feed"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "feed", "configMap": {"name": "feed"}}],
    }
    whole = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"job": name}}, "spec": spec}},
    }
    kubectl("apply", "--filename", "-", stdin=json.dumps(whole))
    ended = "{.status.succeeded}{.status.failed}"
    eventually(lambda: kubectl("get", f"job/{name}", "--output", f"jsonpath={ended}") != "", f"the Job {name}")
    said = kubectl("logs", f"job/{name}")
    assert kubectl("get", f"job/{name}", "--output", "jsonpath={.status.succeeded}") == "1", said
    return said


@contextmanager
def forwarded(target: str) -> Iterator[str]:
    """The URL at which `target` (service/name or pod/name) is reached from here."""
    port = free_port()
    command = ["kubectl", "--namespace", NAMESPACE, "port-forward", target, f"{port}:8080"]
    with tempfile.TemporaryDirectory() as home:
        child = Child(f"the port-forward to {target}", command, Path(home) / "kubectl.log")
        child.start()
        try:
            child.wait_until(lambda: "Forwarding from" in child.tail(), 30)
            yield f"http://{LOCALHOST}:{port}"
        finally:
            child.stop()


def get(url: str) -> tuple[int, Any]:
    """Status and JSON.

    On a connection of its own: a server may close one that is idle for minutes, and a port-forward tells of it late.
    """
    answer = urllib3.request("GET", url, timeout=10, retries=False, headers={"Connection": "close", **HEADERS})
    return answer.status, answer.json()


def eventually(holds: Callable[[], bool], what: str, seconds: float = 120) -> float:
    """Wait until `holds`, and return for how many seconds; fails after `seconds`, naming `what` was waited for."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, f"waited {seconds} s for {what}"
        time.sleep(0.2)
    return time.monotonic() - start


@dataclass
class Reads:
    """Profiles read again and again while something else happens; `failed` tells what was not as it must be."""

    url: str
    least: int
    count: int = 0
    failed: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    @contextmanager
    def going_on(self) -> Iterator["Reads"]:
        stopping = threading.Event()
        thread = threading.Thread(target=self._read, args=(stopping,))
        thread.start()
        try:
            yield self
        finally:
            stopping.set()
            thread.join()

    def _read(self, stopping: threading.Event) -> None:
        draw, pool = random.Random(1), urllib3.PoolManager(maxsize=1, retries=False)
        while not stopping.wait(0.02):
            start = time.monotonic()
            user = draw.randint(1, feed.USERS)
            try:
                answer = pool.request("GET", f"{self.url}/v1/users/{user}", timeout=10, headers=HEADERS)
                profile = answer.json()
                if answer.status != 200 or profile["warnings"] or profile["eventCount"] < self.least // feed.USERS:
                    self.failed.append(f"{answer.status} {profile}")
            except HTTPError as error:
                self.failed.append(str(error))
            self.count += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - start)
