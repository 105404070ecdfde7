"""Instances from EndpointSlices, and the kept instances without an answer."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from devkit.child_process import LOCALHOST, free_port
from services.gateway.endpoints import RELEASE_LABEL, SERVICE_LABEL, Endpoints, Slice, addresses, follow, watched
from streamstate.errors import Misconfigured
from tests.serving import Served, Wsgi

SERVICES = {"metrics": "metrics-eu-pods", "recommendations": "recommendations-pods"}


def endpoint(host: str | None, ip: str = "10.0.0.1", *, serving: bool = True, terminating: bool = False) -> Slice:
    conditions = {"ready": True, "serving": serving, "terminating": terminating}
    return {"addresses": [ip], "conditions": conditions, **({"hostname": host} if host else {})}


def slice_of(service: str, *endpoints: Slice, name: str = "", **members: Any) -> Slice:
    """An EndpointSlice with further `members`; `labels` are added to its own."""
    labels = {SERVICE_LABEL: service, **members.pop("labels", {})}
    meta = {"name": name or f"{service}-1", "namespace": "ns", "labels": labels}
    ports = [{"name": "status", "port": 8081}, {"name": "http", "port": 8080}]
    return {"addressType": "IPv4", "metadata": meta, "endpoints": list(endpoints), "ports": ports, **members}


def telling(slices: list[Slice], changes: list[tuple[str, Slice]]) -> Wsgi:
    """The answers of an API server with these slices, followed by changes."""

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        assert environ["PATH_INFO"].startswith("/apis/discovery.k8s.io/v1/namespaces/")
        start_response("200 OK", [("Content-Type", "application/json")])
        if "watch=true" in environ["QUERY_STRING"]:
            assert "resourceVersion=7" in environ["QUERY_STRING"]
            return [json.dumps({"type": event, "object": one}).encode() + b"\n" for event, one in changes]
        return [json.dumps({"metadata": {"resourceVersion": "7"}, "items": slices}).encode()]

    return answer


@contextmanager
def api_server(slices: list[Slice], changes: list[tuple[str, Slice]]) -> Iterator[Callable[[], httpx2.Client]]:
    """An API server, which is away when the block ends."""
    server = Served(f"{LOCALHOST}:{free_port()}", telling(slices, changes))
    try:
        yield lambda: httpx2.Client(base_url=f"http://{server.address}")
    finally:
        server.stop()


def test_pods_with_a_stable_name_are_reached_by_it_and_others_by_ip() -> None:
    assert addresses(slice_of("m", endpoint("m-0"))) == ["m-0.m.ns.svc:8080"]
    assert addresses(slice_of("m", endpoint(None, "10.0.0.9"))) == ["10.0.0.9:8080"]


@pytest.mark.parametrize("ports", [None, [], [{"name": "status", "port": 8081}]])
def test_a_slice_without_our_port_has_no_addresses(ports: list[Slice] | None) -> None:
    assert addresses(slice_of("m", endpoint("m-0"), ports=ports)) == []


@pytest.mark.parametrize(
    "gone", [endpoint("m-1", serving=False), endpoint("m-1", terminating=True)], ids=["not serving", "terminating"]
)
def test_who_is_not_ready_is_left_out_at_once(gone: Slice) -> None:
    endpoints = Endpoints(SERVICES)
    assert dict(endpoints) == {"metrics": (), "recommendations": ()}
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"), endpoint("m-1"))])
    assert endpoints["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080", "m-1.metrics-eu-pods.ns.svc:8080"]
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"), gone)])
    assert endpoints["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]


def test_several_slices_make_one_list() -> None:
    name = "recommendations-pods"
    first, second = (slice_of(name, endpoint(None, ip), name=ip) for ip in ("10.0.0.1", "10.0.0.2"))
    endpoints = Endpoints(SERVICES)
    endpoints.replace([first, second])
    assert endpoints["recommendations"] == ["10.0.0.1:8080", "10.0.0.2:8080"]
    endpoints.replace([second])
    assert endpoints["recommendations"] == ["10.0.0.2:8080"]


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
    with api_server([first], changes) as connect:
        follow(endpoints, connect, "ns")
    known = [f"m-0.{name}.ns.svc:8080", f"m-2.{name}.ns.svc:8080"]
    assert endpoints["metrics"] == known
    follow(endpoints, connect, "ns")
    assert endpoints["metrics"] == known


def test_a_service_labelled_as_a_release_is_beside_the_first_until_it_is_deleted() -> None:
    endpoints = Endpoints(SERVICES)
    second = slice_of("metrics-2-pods", endpoint("metrics-2-0"), labels={RELEASE_LABEL: "metrics-eu"})
    stranger = slice_of("words-2-pods", endpoint("words-2-0"), labels={RELEASE_LABEL: "words"})
    with api_server([second, stranger], []) as connect:
        follow(endpoints, connect, "ns", beside=True)
    assert endpoints["metrics@metrics-2"] == ["metrics-2-0.metrics-2-pods.ns.svc:8080"]
    assert set(endpoints) == {"metrics", "recommendations", "metrics@metrics-2"}
    endpoints.replace([slice_of("metrics-eu-pods", endpoint("m-0"))])
    assert "metrics@metrics-2" in endpoints
    endpoints.replace([], beside=True)
    assert set(endpoints) == {"metrics", "recommendations"}


def test_a_watch_of_an_expired_version_ends_and_the_last_known_serve() -> None:
    endpoints = Endpoints(SERVICES)
    gone: Slice = {"kind": "Status", "code": 410, "metadata": {}}
    with api_server([slice_of("metrics-eu-pods", endpoint("m-0"))], [("ERROR", gone)]) as connect:
        follow(endpoints, connect, "ns")
    assert endpoints["metrics"] == ["m-0.metrics-eu-pods.ns.svc:8080"]


def test_services_outside_kubernetes_are_misconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(Misconfigured, match="INSTANCES"):
        watched({"metrics": "metrics-pods"}, "ns")
