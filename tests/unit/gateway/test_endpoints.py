"""Instances from EndpointSlices, and the kept instances without an answer."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import (
    ApiClient,
    Configuration,
    DiscoveryV1EndpointPort,
    V1Endpoint,
    V1EndpointConditions,
    V1EndpointSlice,
    V1ObjectMeta,
)

from devkit.child_process import LOCALHOST, free_port
from services.gateway.endpoints import RELEASE_LABEL, SERVICE_LABEL, Endpoints, addresses, follow
from tests.serving import Served, Wsgi

SERVICES = {"metrics": "metrics-eu-pods", "recommendations": "recommendations-pods"}


def endpoint(host: str | None, ip: str = "10.0.0.1", *, serving: bool = True, terminating: bool = False) -> V1Endpoint:
    conditions = V1EndpointConditions(ready=True, serving=serving, terminating=terminating)
    return V1Endpoint(addresses=[ip], hostname=host, conditions=conditions)


def slice_of(service: str, *endpoints: V1Endpoint, name: str = "") -> V1EndpointSlice:
    meta = V1ObjectMeta(name=name or f"{service}-1", namespace="ns", labels={SERVICE_LABEL: service})
    ports = [DiscoveryV1EndpointPort(name="status", port=8081), DiscoveryV1EndpointPort(name="http", port=8080)]
    return V1EndpointSlice(address_type="IPv4", metadata=meta, endpoints=list(endpoints), ports=ports)


def telling(slices: list[V1EndpointSlice], changes: list[tuple[str, V1EndpointSlice]]) -> Wsgi:
    """The answers of an API server with these slices, followed by changes."""
    sanitize = ApiClient().sanitize_for_serialization

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        if "watch=True" in environ["QUERY_STRING"]:
            assert "resourceVersion=7" in environ["QUERY_STRING"]
            return [json.dumps({"type": event, "object": sanitize(one)}).encode() + b"\n" for event, one in changes]
        return [json.dumps({"metadata": {"resourceVersion": "7"}, "items": sanitize(slices)}).encode()]

    return answer


@contextmanager
def api_server(slices: list[V1EndpointSlice], changes: list[tuple[str, V1EndpointSlice]]) -> Iterator[Configuration]:
    """An API server, which is away when the block ends."""
    server = Served(f"{LOCALHOST}:{free_port()}", telling(slices, changes))
    try:
        yield Configuration(host=f"http://{server.address}")
    finally:
        server.stop()


def test_pods_with_a_stable_name_are_reached_by_it_and_others_by_ip() -> None:
    assert addresses(slice_of("m", endpoint("m-0"))) == ["m-0.m.ns.svc:8080"]
    assert addresses(slice_of("m", endpoint(None, "10.0.0.9"))) == ["10.0.0.9:8080"]


@pytest.mark.parametrize("ports", [None, [], [DiscoveryV1EndpointPort(name="status", port=8081)]])
def test_a_slice_without_our_port_has_no_addresses(ports: list[DiscoveryV1EndpointPort] | None) -> None:
    one = slice_of("m", endpoint("m-0"))
    one.ports = ports
    assert addresses(one) == []


@pytest.mark.parametrize(
    "gone", [endpoint("m-1", serving=False), endpoint("m-1", terminating=True)], ids=["not serving", "terminating"]
)
def test_who_is_not_ready_is_left_out_at_once(gone: V1Endpoint) -> None:
    endpoints = Endpoints(SERVICES)
    assert dict(endpoints) == {"metrics": (), "recommendations": ()}
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"), endpoint("m-1"))])
    assert endpoints["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080", "m-1.metrics-eu-pods.ns.svc:8080"]
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"), gone)])
    assert endpoints["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]


def test_the_last_known_serve_when_none_is_ready() -> None:
    endpoints = Endpoints(SERVICES)
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"))])
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0", serving=False))])
    assert endpoints["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]


def test_the_api_server_is_listed_and_watched_and_the_last_known_serve_when_it_is_away() -> None:
    name = "metrics-eu-pods"
    endpoints = Endpoints(SERVICES)
    first, second = (slice_of(name, endpoint(f"m-{number}"), name=str(number)) for number in range(2))
    third = slice_of(name, endpoint("m-2"), name="1")
    changes = [("ADDED", second), ("DELETED", second), ("ADDED", second), ("MODIFIED", third)]
    with api_server([first], changes) as configuration:
        follow(endpoints, configuration, "ns")
    known = [f"m-0.{name}.ns.svc:8080", f"m-2.{name}.ns.svc:8080"]
    assert endpoints["metrics"] == known
    configuration.retries = False
    follow(endpoints, configuration, "ns")
    assert endpoints["metrics"] == known


def test_a_service_labelled_as_a_release_is_beside_the_first_until_it_is_deleted() -> None:
    endpoints = Endpoints(SERVICES)
    second = slice_of("metrics-2-pods", endpoint("metrics-2-0"))
    second.metadata.labels[RELEASE_LABEL] = "metrics-eu"
    stranger = slice_of("words-2-pods", endpoint("words-2-0"))
    stranger.metadata.labels[RELEASE_LABEL] = "words"
    with api_server([second, stranger], []) as configuration:
        follow(endpoints, configuration, "ns", beside=True)
    assert endpoints["metrics@metrics-2"] == ["metrics-2-0.metrics-2-pods.ns.svc:8080"]
    assert set(endpoints) == {"metrics", "recommendations", "metrics@metrics-2"}
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"))])
    assert "metrics@metrics-2" in endpoints
    endpoints.replace([], beside=True)
    assert set(endpoints) == {"metrics", "recommendations"}
