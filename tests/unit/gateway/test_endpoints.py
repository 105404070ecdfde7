"""Instances as EndpointSlices tell of them, and what is kept when they do not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from kubernetes.client import (
    Configuration,
    DiscoveryV1EndpointPort,
    V1Endpoint,
    V1EndpointConditions,
    V1EndpointSlice,
    V1ObjectMeta,
)
from kubernetes.client.exceptions import ApiException

from services.gateway.endpoints import SERVICE_LABEL, Endpoints, addresses

SERVICES = {"metrics": "metrics-eu-pods", "recommendations": "recommendations-pods"}


def endpoint(host: str | None, ip: str = "10.0.0.1", *, serving: bool = True, terminating: bool = False) -> V1Endpoint:
    conditions = V1EndpointConditions(ready=True, serving=serving, terminating=terminating)
    return V1Endpoint(addresses=[ip], hostname=host, conditions=conditions)


def slice_of(service: str, *endpoints: V1Endpoint, name: str = "") -> V1EndpointSlice:
    meta = V1ObjectMeta(name=name or f"{service}-1", namespace="ns", labels={SERVICE_LABEL: service})
    ports = [DiscoveryV1EndpointPort(name="status", port=8081), DiscoveryV1EndpointPort(name="http", port=8080)]
    return V1EndpointSlice(address_type="IPv4", metadata=meta, endpoints=list(endpoints), ports=ports)


@dataclass
class FakeSlices:
    """What the API server says: all of them once, then changes."""

    all: list[Any]
    coming: list[tuple[str, Any]] = field(default_factory=list)
    away: bool = False

    def list(self) -> tuple[Iterable[Any], str]:
        if self.away:
            raise ApiException(status=503)
        return self.all, "7"

    def changes(self, version: str) -> Iterator[tuple[str, Any]]:
        assert version == "7"
        yield from self.coming


def test_pods_with_a_stable_name_are_reached_by_it_and_others_by_ip() -> None:
    assert addresses(slice_of("m", endpoint("m-0"))) == ["m-0.m.ns.svc:8080"]
    assert addresses(slice_of("m", endpoint(None, "10.0.0.9"))) == ["10.0.0.9:8080"]


@pytest.mark.parametrize("ports", [None, [], [DiscoveryV1EndpointPort(name="status", port=8081)]])
def test_a_slice_without_our_port_has_no_addresses(ports: list[DiscoveryV1EndpointPort] | None) -> None:
    one = slice_of("m", endpoint("m-0"))
    one.ports = ports
    assert addresses(one) == []


def test_a_service_without_pods_has_no_endpoints_at_all() -> None:
    unchecked = Configuration()
    unchecked.client_side_validation = False
    meta = V1ObjectMeta(name="m-1", namespace="ns", labels={SERVICE_LABEL: "m"})
    ports = [DiscoveryV1EndpointPort(name="http", port=8080)]
    empty = V1EndpointSlice(
        address_type="IPv4", metadata=meta, endpoints=None, ports=ports, local_vars_configuration=unchecked
    )
    assert addresses(empty) == []


@pytest.mark.parametrize(
    "gone", [endpoint("m-1", serving=False), endpoint("m-1", terminating=True)], ids=["not serving", "terminating"]
)
def test_who_is_not_ready_is_left_out_at_once(gone: V1Endpoint) -> None:
    slices = FakeSlices([slice_of("metrics-eu-pods", endpoint("m-0"), endpoint("m-1"))])
    found = Endpoints(SERVICES, slices)
    assert dict(found) == {"metrics": (), "recommendations": ()}
    found.follow()
    assert found["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080", "m-1.metrics-eu-pods.ns.svc:8080"]
    slices.coming = [("MODIFIED", slice_of("metrics-eu-pods", endpoint("m-0"), gone))]
    found.follow()
    assert found["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]


def test_several_slices_make_one_list() -> None:
    name = "recommendations-pods"
    one, other = (slice_of(name, endpoint(None, ip), name=ip) for ip in ("10.0.0.1", "10.0.0.2"))
    slices = FakeSlices([one], [("ADDED", other)])
    found = Endpoints(SERVICES, slices)
    found.follow()
    assert found["recommendations"] == ["10.0.0.1:8080", "10.0.0.2:8080"]
    slices.coming = [("ADDED", other), ("DELETED", one)]
    found.follow()
    assert found["recommendations"] == ["10.0.0.2:8080"]


def test_the_last_known_serve_when_none_is_ready_or_the_api_server_is_away() -> None:
    slices = FakeSlices([slice_of("metrics-eu-pods", endpoint("m-0"))])
    found = Endpoints(SERVICES, slices)
    found.follow()
    slices.all = [slice_of("metrics-eu-pods", endpoint("m-0", serving=False))]
    found.follow()
    assert found["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]
    slices.away = True
    with pytest.raises(ApiException):
        found.follow()
    assert found["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]
