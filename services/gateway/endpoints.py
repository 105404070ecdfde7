"""The instances of each service by Kubernetes' EndpointSlices, watched in the background."""

import os
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import structlog

from services.gateway.directory import BESIDE
from streamstate.deployment.address import Address
from streamstate.deployment.background import keep_running
from streamstate.errors import Misconfigured

log = structlog.get_logger()

SERVICE_LABEL = "kubernetes.io/service-name"
RELEASE_LABEL = "streamstate/release-of"
"""Names, on the Service of a release beside another, the Helm release of the first."""

PODS = "-pods"
"""The end of the name of a headless Service, behind the Helm release."""

RELIST_S = 60
PAUSE_S = 1.0
ANSWER_S = 10

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The files of the pod's service account. Kubernetes replaces the token within the hour."""

Slice = Mapping[str, Any]
"""An EndpointSlice of discovery.k8s.io/v1."""


class Endpoints(dict[str, Sequence[str]]):
    """The addresses (host:port) of ready instances by service. Safe for threads.

    A service without a ready instance keeps its last addresses: an instance may still answer, and a missing instance
    refuses at once.

    services: the Kubernetes Service by the name of a service. A Service labelled as a release of one of them is a
        deployment beside it, until the Service is deleted.
    """

    def __init__(self, services: Mapping[str, str]) -> None:
        super().__init__(dict.fromkeys(services, ()))
        self.services = {kubernetes: ours for ours, kubernetes in services.items()}

    def replace(self, slices: Iterable[Slice], *, beside: bool = False) -> None:
        """Replace all addresses of services, or of releases `beside` them, by the endpoints of `slices`."""
        ready: defaultdict[str, set[str]] = defaultdict(set)
        for slice_ in slices:
            if service := self._deployment(slice_["metadata"]["labels"]):
                ready[service].update(addresses(slice_))
        for gone in [name for name in self if beside and BESIDE in name and name not in ready]:
            del self[gone]
        for service, instances in ready.items():
            if instances and set(self.get(service, ())) != instances:
                log.info("the instances of a service changed", service=service, count=len(instances))
                self[service] = sorted(instances)

    def _deployment(self, labels: Mapping[str, str]) -> str | None:
        """The deployment of a slice with these labels, None for another Service."""
        kubernetes = labels[SERVICE_LABEL]
        if service := self.services.get(kubernetes):
            return service
        service = self.services.get(f"{labels.get(RELEASE_LABEL)}{PODS}")
        return f"{service}{BESIDE}{kubernetes.removesuffix(PODS)}" if service else None


def addresses(slice_: Slice) -> list[str]:
    """The ready addresses of an EndpointSlice: by the pod's name, as owners are named, else by IP.

    Empty for a slice without the port `http`.
    """
    meta = slice_["metadata"]
    domain = f"{meta['labels'][SERVICE_LABEL]}.{meta['namespace']}.svc"
    return [
        f"{endpoint['hostname']}.{domain}:{port['port']}"
        if endpoint.get("hostname")
        else str(Address(endpoint["addresses"][0], port["port"]))
        for port in slice_.get("ports") or ()
        if port.get("name") == "http"
        for endpoint in slice_.get("endpoints") or ()
        if _serves(endpoint.get("conditions", {}))
    ]


def _serves(conditions: Mapping[str, Any]) -> bool:
    # `ready` is always true where a Service publishes addresses of unready pods; `serving` is not.
    return bool(conditions.get("serving") and not conditions.get("terminating"))


def api_server() -> httpx2.Client:
    """A client of the API server with the pod's service account. Raises `Misconfigured` outside Kubernetes."""
    try:
        address = Address(os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))
        token, context = (ACCOUNT / "token").read_text(), ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    except (KeyError, OSError) as error:
        msg = f"SERVICES needs a pod's service account ({error!r}); name the instances by INSTANCES elsewhere"
        raise Misconfigured(msg) from error
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=f"https://{address}", headers=headers, verify=context, trust_env=False)


def watched(services: Mapping[str, str], namespace: str) -> Endpoints:
    """The endpoints of `services`, kept current in the background. Raises as `api_server`."""
    api_server().close()
    endpoints = Endpoints(services)
    for name, beside in (("endpoints", False), ("releases", True)):
        look = partial(follow, endpoints, api_server, namespace, beside=beside)
        keep_running(name, look, PAUSE_S, longest_s=2 * RELIST_S)
    return endpoints


def follow(endpoints: Endpoints, connect: Callable[[], httpx2.Client], namespace: str, *, beside: bool = False) -> None:
    """List the slices of services, or of releases `beside` them; then watch for changes.

    The API server ends a watch after at most `RELIST_S` seconds.
    """
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = RELEASE_LABEL if beside else f"{SERVICE_LABEL} in ({','.join(endpoints.services)})"
    query = {"labelSelector": selector}
    try:
        with connect() as api:
            known = api.get(path, params=query, timeout=ANSWER_S).raise_for_status().json()
            slices: dict[str, Slice] = {slice_["metadata"]["name"]: slice_ for slice_ in known["items"]}
            endpoints.replace(slices.values(), beside=beside)
            query |= {"watch": "true", "resourceVersion": known["metadata"]["resourceVersion"]}
            query |= {"timeoutSeconds": str(RELIST_S)}
            with api.stream("GET", path, params=query, timeout=RELIST_S + ANSWER_S) as changes:
                for line in changes.raise_for_status().iter_lines():
                    _change(slices, msgspec.json.decode(line))
                    endpoints.replace(slices.values(), beside=beside)
    except (httpx2.HTTPError, OSError, ValueError, KeyError) as error:
        log.warning("the API server does not answer; the last known instances serve", reason=str(error))


def _change(slices: dict[str, Slice], change: Mapping[str, Any]) -> None:
    """Apply an event of a watch. Raises KeyError for an error in place of a slice, such as an expired version."""
    name = change["object"]["metadata"]["name"]
    slices[name] = change["object"]
    if change["type"] == "DELETED":
        del slices[name]
