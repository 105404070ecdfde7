"""The instances of each service by Kubernetes' EndpointSlices, watched in the background."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from services.gateway.routing.directory import BESIDE
from streamstate.deployment.address import Address
from streamstate.deployment.background import keep_running

log = structlog.get_logger()

SERVICE_LABEL = "kubernetes.io/service-name"
RELEASE_LABEL = "streamstate/release-of"
"""Names, on the Service of a release beside another, the Helm release of the first."""

PODS = "-pods"
"""The end of the name of a headless Service, behind the Helm release."""

RELIST_S = 60
PAUSE_S = 1.0


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

    def replace(self, slices: Iterable[Any], *, beside: bool = False) -> None:
        """Replace all addresses of services, or of releases `beside` them, by the endpoints of `slices`."""
        ready: defaultdict[str, set[str]] = defaultdict(set)
        for slice_ in slices:
            if service := self._deployment(slice_.metadata.labels):
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


def addresses(slice_: Any) -> list[str]:
    """The ready addresses of an EndpointSlice: by the pod's name, as owners are named, else by IP.

    Empty for a slice without the port `http`.
    """
    service, namespace = slice_.metadata.labels[SERVICE_LABEL], slice_.metadata.namespace
    ports = [port.port for port in slice_.ports or () if port.name == "http"]
    return [
        f"{endpoint.hostname}.{service}.{namespace}.svc:{port}"
        if endpoint.hostname
        else str(Address(endpoint.addresses[0], port))
        for port in ports
        for endpoint in slice_.endpoints or ()
        # `ready` is always true where a Service publishes addresses of unready pods; `serving` is not.
        if endpoint.conditions.serving and not endpoint.conditions.terminating
    ]


def watched(services: Mapping[str, str], namespace: str) -> Endpoints:
    """The endpoints of `services`, kept current in the background with the pod's service account."""
    configuration = client.Configuration()
    config.load_incluster_config(configuration)
    endpoints = Endpoints(services)
    for name, beside in (("endpoints", False), ("releases", True)):
        look = partial(follow, endpoints, configuration, namespace, beside=beside)
        keep_running(name, look, PAUSE_S, longest_s=2 * RELIST_S)
    return endpoints


def follow(endpoints: Endpoints, configuration: client.Configuration, namespace: str, *, beside: bool = False) -> None:
    """List the slices of services, or of releases `beside` them; then watch for changes.

    The API server ends a watch after at most `RELIST_S` seconds.
    """
    # The client would refuse the slice of a Service without pods: it has no endpoints.
    configuration.client_side_validation = False
    listed = client.DiscoveryV1Api(client.ApiClient(configuration)).list_namespaced_endpoint_slice
    selector = RELEASE_LABEL if beside else f"{SERVICE_LABEL} in ({','.join(endpoints.services)})"
    query = {"namespace": namespace, "label_selector": selector}
    try:
        known = listed(**query, _request_timeout=10)
        slices = {slice_.metadata.name: slice_ for slice_ in known.items}
        endpoints.replace(slices.values(), beside=beside)
        changes = watch.Watch().stream(
            listed,
            **query,
            resource_version=known.metadata.resource_version,
            timeout_seconds=RELIST_S,
            _request_timeout=(10, RELIST_S + 10),
        )
        for change in changes:
            slices[change["object"].metadata.name] = change["object"]
            if change["type"] == "DELETED":
                del slices[change["object"].metadata.name]
            endpoints.replace(slices.values(), beside=beside)
    except (ApiException, HTTPError, OSError) as error:
        log.warning("the API server does not answer; the last known instances serve", reason=str(error))
