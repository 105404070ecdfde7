"""The instances of each service by Kubernetes' EndpointSlices, watched in the background."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from streamstate.deployment.address import Address
from streamstate.deployment.background import keep_running

log = structlog.get_logger()

SERVICE_LABEL = "kubernetes.io/service-name"
RELIST_S = 60
PAUSE_S = 1.0


class Endpoints(dict[str, Sequence[str]]):
    """The addresses (host:port) of ready instances by service. Safe for threads.

    A service without a ready instance keeps its last addresses: an instance may still answer, and a missing instance
    refuses at once.

    services: the Kubernetes Service by the name of a service.
    """

    def __init__(self, services: Mapping[str, str]) -> None:
        super().__init__(dict.fromkeys(services, ()))
        self.services = {kubernetes: ours for ours, kubernetes in services.items()}

    def replace(self, slices: Iterable[Any]) -> None:
        """Replace all addresses by the endpoints of `slices`."""
        ready: defaultdict[str, set[str]] = defaultdict(set)
        for slice_ in slices:
            if service := self.services.get(slice_.metadata.labels[SERVICE_LABEL]):
                ready[service].update(addresses(slice_))
        for service, instances in ready.items():
            if instances and set(self[service]) != instances:
                log.info("the instances of a service changed", service=service, count=len(instances))
                self[service] = sorted(instances)


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
    keep_running("endpoints", lambda: follow(endpoints, configuration, namespace), PAUSE_S, longest_s=2 * RELIST_S)
    return endpoints


def follow(endpoints: Endpoints, configuration: client.Configuration, namespace: str) -> None:
    """List all slices, then watch for changes until the API server ends the watch, after at most `RELIST_S` seconds."""
    # The client would refuse the slice of a Service without pods: it has no endpoints.
    configuration.client_side_validation = False
    listed = client.DiscoveryV1Api(client.ApiClient(configuration)).list_namespaced_endpoint_slice
    query = {"namespace": namespace, "label_selector": f"{SERVICE_LABEL} in ({','.join(endpoints.services)})"}
    try:
        known = listed(**query, _request_timeout=10)
        slices = {slice_.metadata.name: slice_ for slice_ in known.items}
        endpoints.replace(slices.values())
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
            endpoints.replace(slices.values())
    except (ApiException, HTTPError, OSError) as error:
        log.warning("the API server does not answer; the last known instances serve", reason=str(error))
