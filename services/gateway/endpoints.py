"""The instances of each service as Kubernetes sees them: watched EndpointSlices, the last known map kept."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from streamstate.deployment.background import keep_running

log = structlog.get_logger()

SERVICE_LABEL = "kubernetes.io/service-name"
RELIST_S = 60
PAUSE_S = 1.0


class Endpoints(Mapping[str, Sequence[str]]):
    """The addresses (host:port) of the instances that are ready, by service. Safe for threads.

    A service none of whose instances is ready keeps the addresses that it had: their state can still be asked, and who
    is really gone refuses at once.

    services: the Kubernetes Service of each of our services.
    """

    def __init__(self, services: Mapping[str, str]) -> None:
        self.services = {kubernetes: ours for ours, kubernetes in services.items()}
        self._slices: dict[str, Any] = {}
        self._addresses: dict[str, Sequence[str]] = dict.fromkeys(services, ())

    def __getitem__(self, service: str) -> Sequence[str]:
        return self._addresses[service]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def replace(self, slices: Iterable[Any]) -> None:
        """Take `slices` for all that there are."""
        self._slices = {slice_.metadata.name: slice_ for slice_ in slices}
        self._update()

    def change(self, event: str, slice_: Any) -> None:
        """Take in that a slice was ADDED, MODIFIED or DELETED."""
        self._slices.pop(slice_.metadata.name, None)
        if event != "DELETED":
            self._slices[slice_.metadata.name] = slice_
        self._update()

    def _update(self) -> None:
        ready: defaultdict[str, set[str]] = defaultdict(set)
        for slice_ in self._slices.values():
            if service := self.services.get(slice_.metadata.labels[SERVICE_LABEL]):
                ready[service].update(addresses(slice_))
        for service, instances in ready.items():
            if instances and set(self._addresses[service]) != instances:
                log.info("the instances of a service changed", service=service, count=len(instances))
                self._addresses[service] = sorted(instances)


def addresses(slice_: Any) -> list[str]:
    """The ready ones of an EndpointSlice: by the pod's own name where it has one, as owners are named, else by IP.

    A slice without our port has none.
    """
    service, namespace = slice_.metadata.labels[SERVICE_LABEL], slice_.metadata.namespace
    ports = [port.port for port in slice_.ports or () if port.name == "http"]
    return [
        f"{endpoint.hostname}.{service}.{namespace}.svc:{port}"
        if endpoint.hostname
        else f"{endpoint.addresses[0]}:{port}"
        for port in ports
        for endpoint in slice_.endpoints or ()
        # `ready` says nothing where addresses are published before pods are ready; `serving` does.
        if endpoint.conditions.serving and not endpoint.conditions.terminating
    ]


def watched(services: Mapping[str, str], namespace: str) -> Endpoints:
    """The endpoints of `services`, kept up in the background by what the API server tells the pod's own account."""
    configuration = client.Configuration()
    config.load_incluster_config(configuration)
    endpoints = Endpoints(services)
    keep_running("endpoints", lambda: follow(endpoints, configuration, namespace), PAUSE_S, longest_s=2 * RELIST_S)
    return endpoints


def follow(endpoints: Endpoints, configuration: client.Configuration, namespace: str) -> None:
    """List all slices, then watch for changes until the API server ends it, after `RELIST_S` seconds at most."""
    # Else the client refuses the slice of a Service without pods, which has no endpoints.
    configuration.client_side_validation = False
    slices = client.DiscoveryV1Api(client.ApiClient(configuration)).list_namespaced_endpoint_slice
    query = {"namespace": namespace, "label_selector": f"{SERVICE_LABEL} in ({','.join(endpoints.services)})"}
    try:
        known = slices(**query, _request_timeout=10)
        endpoints.replace(known.items)
        changes = watch.Watch().stream(
            slices,
            **query,
            resource_version=known.metadata.resource_version,
            timeout_seconds=RELIST_S,
            _request_timeout=(10, RELIST_S + 10),
        )
        for change in changes:
            endpoints.change(change["type"], change["object"])
    except (ApiException, HTTPError, OSError) as error:
        log.warning("the API server does not answer; the last known instances serve", reason=str(error))
