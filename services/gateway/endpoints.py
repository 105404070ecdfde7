"""The instances of each service as Kubernetes sees them: watched EndpointSlices, the last known map kept."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import structlog
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from streamstate.deployment.background import keep_running

log = structlog.get_logger()

SERVICE_LABEL = "kubernetes.io/service-name"
RELIST_S = 60
PAUSE_S = 1.0


class Slices(Protocol):
    """Where EndpointSlices come from; raises `ApiException` or urllib3's `HTTPError` when the API server is away."""

    def list(self) -> tuple[Iterable[Any], str]:
        """All of them, and the version from which `changes` goes on."""
        ...

    def changes(self, version: str) -> Iterable[tuple[str, Any]]:
        """(ADDED, MODIFIED or DELETED, slice) as it happens; ends after `RELIST_S` seconds."""
        ...


class Endpoints(Mapping[str, Sequence[str]]):
    """The addresses (host:port) of the instances that are ready, by service. Safe for threads.

    A service none of whose instances is ready keeps the addresses that it had: their state can still be asked, and who
    is really gone refuses at once.

    services: the Kubernetes Service of each of our services.
    """

    def __init__(self, services: Mapping[str, str], slices: Slices) -> None:
        self._services = {kubernetes: ours for ours, kubernetes in services.items()}
        self._slices = slices
        self._seen: dict[str, Any] = {}
        self._addresses: dict[str, Sequence[str]] = dict.fromkeys(services, ())

    def start(self) -> None:
        """Watch in the background, for as long as the process lives."""
        keep_running("endpoints", self._try_to_follow, PAUSE_S, longest_s=2 * RELIST_S)

    def __getitem__(self, service: str) -> Sequence[str]:
        return self._addresses[service]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def follow(self) -> None:
        """One look at all, and what changes after it, until the API server ends it."""
        found, version = self._slices.list()
        self._seen = {one.metadata.name: one for one in found}
        self._update()
        for change, one in self._slices.changes(version):
            if change == "DELETED":
                self._seen.pop(one.metadata.name, None)
            else:
                self._seen[one.metadata.name] = one
            self._update()

    def _update(self) -> None:
        ready: defaultdict[str, list[str]] = defaultdict(list)
        for one in self._seen.values():
            if service := self._services.get(one.metadata.labels[SERVICE_LABEL]):
                ready[service] += addresses(one)
        changed = {service: sorted(set(some)) for service, some in ready.items() if some}
        if any(self._addresses[service] != some for service, some in changed.items()):
            log.info("the instances changed", **{service: len(some) for service, some in changed.items()})
            self._addresses |= changed

    def _try_to_follow(self) -> None:
        try:
            self.follow()
        except (ApiException, HTTPError, OSError) as error:
            log.warning("the API server does not answer; the last known instances serve", reason=str(error))


def addresses(slice_: Any) -> list[str]:
    """The ready ones of an EndpointSlice: by the pod's own name where it has one, as owners are named, else by IP.

    A slice without our port has none.
    """
    service, namespace = slice_.metadata.labels[SERVICE_LABEL], slice_.metadata.namespace
    ports = [port.port for port in slice_.ports or () if port.name == "http"]
    return [
        f"{one.hostname}.{service}.{namespace}.svc:{port}" if one.hostname else f"{one.addresses[0]}:{port}"
        for port in ports
        for one in slice_.endpoints or ()
        # `ready` says nothing where addresses are published before pods are ready; `serving` does.
        if one.conditions.serving and not one.conditions.terminating
    ]


class KubernetesSlices:
    """The slices of some Services, asked of the API server with the pod's own token."""

    def __init__(self, namespace: str, services: Iterable[str]) -> None:
        configuration = client.Configuration()
        config.load_incluster_config(configuration)
        # Else the client refuses the slice of a Service without pods, which has no endpoints.
        configuration.client_side_validation = False
        self._api = client.DiscoveryV1Api(client.ApiClient(configuration))
        self._query = {"namespace": namespace, "label_selector": f"{SERVICE_LABEL} in ({','.join(services)})"}

    def list(self) -> tuple[Iterable[Any], str]:
        found = self._api.list_namespaced_endpoint_slice(**self._query, _request_timeout=10)
        return found.items, found.metadata.resource_version

    def changes(self, version: str) -> Iterable[tuple[str, Any]]:
        events = watch.Watch().stream(
            self._api.list_namespaced_endpoint_slice,
            **self._query,
            resource_version=version,
            timeout_seconds=RELIST_S,
            _request_timeout=(10, RELIST_S + 10),
        )
        return ((event["type"], event["object"]) for event in events)
