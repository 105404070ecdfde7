"""kubectl and helm in namespaces of the current kubeconfig's cluster, and reads through a port-forward."""

import json
import os
import random
import secrets
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.web.access import internal, keys
from tests.certificates import Authority
from tests.e2e import feed, topics
from tests.waiting import PATIENCE_S, REQUEST_S, until_equal

ARCHIVE, GATEWAY, INFRA, OPERATOR = "archive", "gateway", "infra", "operator"
GATEWAY_TLS, INSTANCES_TLS, INFRA_TLS = "gateway-tls", "instances-tls", "infra-tls"
"""Secrets of a certificate and of its CA, in the format of cert-manager."""
INSTANCES_NAME = "instances"
"""The DNS name in the certificate of every instance."""
REDIS = "rediss://redis:6379/0"


AT_ONCE = 2
"""How many images are built, or services installed, at the same time."""


def together(act: Callable[[str], object], names: Iterable[str], at_once: int = AT_ONCE) -> None:
    """Act on each of `names`, some at the same time; raises the first error."""
    with ThreadPoolExecutor(at_once) as executor:
        list(executor.map(act, names))


def run(*command: str, stdin: str | None = None) -> str:
    """The output of the command; fails with the command's error."""
    result = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}"
    return result.stdout


@dataclass(frozen=True)
class Api:
    """An HTTP server at `url`, and the credentials of a caller."""

    url: str
    headers: dict[str, str]
    tls: ssl.SSLContext

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON.

        On a connection of its own: a server may close one that is idle for minutes, and a port-forward tells of it
        late.
        """
        with self.pool() as pool:
            answer = pool.request(
                "GET", self.url + path, timeout=REQUEST_S, headers={"Connection": "close", **self.headers}
            )
            return answer.status, answer.json()

    def pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(maxsize=1, retries=False, ssl_context=self.tls)


class Namespace:
    """A namespace with credentials of its own: a caller's key, the token of its releases, and certificates."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self._authority = Authority(home)
        self._key, self._token = keys.generate(), secrets.token_urlsafe(32)
        # The credentials for the gateway, and for an instance.
        self._headers = {"Authorization": f"Bearer {self._key}", internal.HEADER: self._token}
        self._tls = ssl.create_default_context(cafile=self._authority.path)
        self._tls.load_cert_chain(*self._authority.issue("test", LOCALHOST))

    def create(self) -> None:
        """Make it anew, with its Secrets."""
        self.delete()
        run("kubectl", "create", "namespace", self.name)
        run("kubectl", "label", "namespace", self.name, "pod-security.kubernetes.io/enforce=restricted")
        entry = {"name": "test", "sha256": keys.digest(self._key), "scopes": ["admin"]}
        limits = {"requests_per_s": 10_000, "cost_per_s": 100_000}
        self._create_secret("callers", {"keys": json.dumps(entry | limits)})
        self._create_secret("streamstate-internal", {"tokens": self._token})
        self._create_certificate(GATEWAY_TLS, f"{GATEWAY}.{self.name}.svc")
        self._create_certificate(INSTANCES_TLS, INSTANCES_NAME)
        self._create_certificate(INFRA_TLS, "redis", "kafka", f"kafka.{self.name}.svc")

    def uninstall(self) -> None:
        """Remove every release, of which nothing may be left, and the namespace."""
        releases = self.helm("list", "--short").split()
        # Kafka and Redis go last: streams that end leave their consumer group.
        for each in ({*releases} - {INFRA}, {*releases} & {INFRA}):
            together(lambda release: self.helm("uninstall", release, "--wait"), each, at_once=4)
        ours = ("--selector", "app.kubernetes.io/part-of=streamstate")
        left = ("get", "all,configmap,role,rolebinding,networkpolicy,pdb", *ours, "--output", "name")
        until_equal(lambda: self.kubectl(*left), "", "nothing of it to be left")
        self.delete()

    def delete(self) -> None:
        run("kubectl", "delete", "namespace", self.name, "--ignore-not-found")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        return run(os.environ.get("HELM", "helm"), "--namespace", self.name, *arguments)

    def upgrade(self, release: str, chart: str, values: dict[str, Any], *more: str) -> None:
        """Install or upgrade, and wait until all of it is ready."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(values, file)
            file.flush()
            options = ("--install", "--values", file.name, "--timeout", "5m", "--wait", *more)
            self.helm("upgrade", release, f"charts/{chart}", *options)

    def start_operator(self, image: str) -> None:
        """Start a pod in which an operator's commands run: it has the addresses of Kafka and Redis."""
        servers = {
            "STREAMSTATE_KAFKA": "kafka:9092",
            "STREAMSTATE_KAFKA_SECURITY": "SSL",
            "STREAMSTATE_KAFKA_CA": "/infra/ca.crt",
            "STREAMSTATE_REDIS": REDIS,
            "STREAMSTATE_REDIS_CA": "/infra/ca.crt",
            "STREAMSTATE_PACKAGE": "services",
        }
        container = {
            "name": OPERATOR,
            "image": image,
            "command": ["sleep", "infinity"],
            "resources": {"requests": {"cpu": "250m"}},
            "env": [{"name": variable, "value": value} for variable, value in servers.items()],
            "volumeMounts": [{"name": "infra", "mountPath": "/infra"}],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec = {
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "infra", "secret": {"secretName": INFRA_TLS}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": OPERATOR}, "spec": spec}
        self.kubectl("create", "--filename", "-", stdin=json.dumps(pod))
        self.kubectl("wait", "--for=condition=Ready", f"pod/{OPERATOR}", "--timeout=120s")

    def operate(self, *command: str, stdin: str = "") -> str:
        """The output of a command in the operator's pod; fails with the command."""
        return self.kubectl("exec", "--stdin", OPERATOR, "--", *command, stdin=stdin)

    def send(self, topic: str, first: int, count: int) -> None:
        """Send events `first` to `first + count`; returns when Kafka has them."""
        self.operate("python", "-", topic, str(first), str(count), stdin=Path(feed.__file__).read_text())

    def manage_topics(self, *arguments: str) -> None:
        """Run `topics.py` with these arguments."""
        self.operate("python", "-", *arguments, stdin=Path(topics.__file__).read_text())

    @contextmanager
    def forwarded(self, target: str) -> Iterator[Api]:
        """`target` (service/name or pod/name), as it is reached from here."""
        port = free_port()
        command = ["kubectl", "--namespace", self.name, "port-forward", target, f"{port}:8080"]
        with tempfile.TemporaryDirectory() as home:
            child = Child(f"the port-forward to {target}", command, Path(home) / "kubectl.log")
            child.start()
            try:
                child.wait_until(lambda: "Forwarding from" in child.tail(), PATIENCE_S)
                yield Api(f"https://{LOCALHOST}:{port}", self._headers, self._tls)
            finally:
                child.stop()

    def _create_certificate(self, secret: str, *hosts: str) -> None:
        """Of a server with these names, which is reached from here too."""
        certificate, key = self._authority.issue(secret, LOCALHOST, *hosts)
        files = {"tls.crt": certificate, "tls.key": key, "ca.crt": self._authority.path}
        self._create_secret(secret, {name: path.read_text() for name, path in files.items()})

    def _create_secret(self, name: str, data: dict[str, str]) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        self.kubectl("create", "--filename", "-", stdin=json.dumps(secret))


@dataclass
class Reads:
    """Profiles read again and again while something else happens; `failed` tells what was not as it must be."""

    api: Api
    least: int
    count: int = 0
    failed: list[str] = field(default_factory=list)

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
        draw, pool = random.Random(1), self.api.pool()
        while not stopping.wait(0.02):
            user = draw.randint(1, feed.USERS)
            try:
                url = f"{self.api.url}/v1/users/{user}"
                answer = pool.request("GET", url, timeout=REQUEST_S, headers=self.api.headers)
                profile = answer.json()
                if answer.status != 200 or profile["warnings"] or profile["eventCount"] < self.least // feed.USERS:
                    self.failed.append(f"{answer.status} {profile}")
            except HTTPError as error:
                self.failed.append(str(error))
            self.count += 1
