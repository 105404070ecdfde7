"""Instances from EndpointSlices, and the kept instances without an answer."""

import asyncio
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

from devkit.servers.child_process import LOCALHOST, free_port
from services.gateway.routing.endpoints import RELEASE_LABEL, SERVICE_LABEL, Endpoints, addresses, follow
from services.gateway.routing.upstream import SHARE, Upstream
from streamstate.web.client.instances import OWNER, Instances, InstanceUnreachable
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Response
from tests.serving import Served, Wsgi, soon

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


# Who is asked next.

ALL = ("a:1", "b:1", "c:1")
INSTANCES = {"all": ALL, "one": ["a:1"], "two": ["a:1", "b:1"], "none": []}
MOST = 3


class Acted(Instances):
    """Instances controlled by the test: a status, no answer, or an event that calls wait for."""

    def __init__(self, **does: int | Exception | asyncio.Event) -> None:
        super().__init__()
        self.does = {f"{name}:1": what for name, what in does.items()}
        self.asked: list[str] = []
        self.allowed: list[float] = []
        self.ill: set[str] = set()

    def is_healthy(self, address: str) -> bool:
        return address not in self.ill

    async def get(self, address: str, path: str, deadline: Deadline, *_: Any, **__: Any) -> Response:
        self.asked.append(address)
        self.allowed.append(deadline.left)
        what = self.does.get(address, 200)
        if isinstance(what, Exception):
            self.ill.add(address)
            raise what
        if isinstance(what, asyncio.Event):
            await what.wait()
            what = 200
        return Response(what, path.encode(), {})


def over(client: Instances) -> Upstream:
    return Upstream(INSTANCES, client, MOST)


def ask(upstream: Upstream, service: str = "all", owner: str | None = None) -> Response:
    return asyncio.run(upstream.get(service, owner, "/path", [], soon(2)))


def test_the_least_busy_is_asked() -> None:
    async def trial() -> None:
        gate = asyncio.Event()
        acted = Acted(a=gate)
        upstream = over(acted)
        waiting = asyncio.create_task(upstream.get("one", None, "/path", [], soon()))
        await asyncio.sleep(0)
        for _ in range(4):
            await upstream.get("two", None, "/path", [], soon())
        assert acted.asked == ["a:1", *["b:1"] * 4]
        gate.set()
        await waiting
        await upstream.get("two", None, "/path", [], soon())
        assert acted.asked[-1] == "a:1"

    asyncio.run(trial())


def test_after_no_answer_another_is_asked_and_the_one_that_gave_none_rests() -> None:
    acted = Acted(a=InstanceUnreachable("a:1"))
    upstream = over(acted)
    for _ in range(6):
        assert ask(upstream).status == 200
    assert acted.asked.count("a:1") == 1


@pytest.mark.parametrize("status", [503, 504])
def test_after_a_refusal_another_is_asked(status: int) -> None:
    acted = Acted(a=status)
    upstream = over(acted)
    for _ in range(6):
        assert ask(upstream).status == 200
    assert acted.asked.count("a:1") > 1


def test_when_none_is_ready_the_last_refusal_is_the_answer() -> None:
    acted = Acted(a=503, b=InstanceUnreachable("b:1"), c=503)
    assert ask(over(acted)).status == 503
    assert sorted(acted.asked) == list(ALL)


def test_when_none_can_be_reached_it_is_503() -> None:
    with pytest.raises(Problem, match="no instance") as error:
        ask(over(Acted(a=InstanceUnreachable("a:1"))), "one")
    assert error.value.status == 503
    with pytest.raises(Problem):
        ask(over(Acted()), "none")


@pytest.mark.parametrize("status", [503, 504])
def test_a_refusal_of_the_owner_is_the_answer(status: int) -> None:
    acted = Acted(b=status)
    assert ask(over(acted), owner="b:1").status == status
    assert acted.asked == ["b:1"]


def test_instances_that_name_each_other_as_the_owner_do_not_keep_a_request() -> None:
    class Disowning(Acted):
        async def get(self, address: str, path: str, deadline: Deadline, *more: Any, **named: Any) -> Response:
            answer = await super().get(address, path, deadline)
            other, marks = (
                {"a:1": "b:1", "b:1": "a:1"}[address],
                more[1] if len(more) > 1 else named.get("marks", OWNER),
            )
            return Response(421, b'{"owner": "%s"}' % other.encode(), {}) if marks == OWNER else answer

    acted = Disowning()
    assert ask(over(acted), "two", "a:1").status == 200
    assert acted.asked[:2] == ["a:1", "b:1"]
    assert len(acted.asked) == 3


def test_an_instance_that_hangs_leaves_time_for_the_next() -> None:
    acted = Acted(a=504, b=504, c=504)
    ask(over(acted))
    first, second, last = acted.allowed
    assert first == pytest.approx(2 * SHARE, abs=0.1)
    assert second == pytest.approx(2 * SHARE, abs=0.1)
    assert last == pytest.approx(2, abs=0.1)


def test_where_any_instance_answers_one_that_has_its_calls_is_left_out() -> None:
    async def trial() -> None:
        gate = asyncio.Event()
        acted = Acted(a=gate, b=503)
        upstream = over(acted)
        held = [asyncio.create_task(upstream.get("one", None, "/path", [], soon())) for _ in range(MOST)]
        await asyncio.sleep(0)
        assert (await upstream.get("all", None, "/path", [], soon())).status == 200
        with pytest.raises(Problem, match="requests for one instance"):
            await upstream.get("one", None, "/path", [], soon())
        assert (await upstream.get("two", None, "/path", [], soon())).status == 503
        assert acted.asked.count("a:1") == MOST
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(trial())
