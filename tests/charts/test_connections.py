"""NetworkPolicies: the connections that must work with the values of each case, and some that must not."""

from dataclasses import replace
from typing import Any

import pytest

from tests.charts.connections import ELSEWHERE, allowed, end, in_namespace
from tests.charts.rendering import Object, render

API, STATUS, PROBES, DRIVER, BLOCKS = 8080, 8081, 8082, 7078, 7079
KAFKA, REDIS = (
    in_namespace(**{"app.kubernetes.io/part-of": "streamstate", "app": name}) for name in ("kafka", "redis")
)
PROMETHEUS, INGRESS = in_namespace("monitoring"), in_namespace("ingress")
STRANGER = in_namespace(app="another")
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

Given = dict[str, Any]


def installed(metrics: Given | None = None, gateway: Given | None = None) -> list[Object]:
    """All objects of three releases in a namespace."""
    return [*render("metrics", given=metrics), *render("names"), *render("gateway", given=gateway)]


OBJECTS = pytest.fixture(installed, scope="module", name="objects")


def pod(container: str, chart: str = "metrics", given: Given | None = None) -> Any:
    return end(render(chart, given=given), container)


def test_an_instance_reaches_what_it_needs_and_is_reached_by_the_gateway(objects: list[Object]) -> None:
    instance, gateway, test = pod("api"), pod("api", "gateway"), pod("ask")
    for server, port in ((KAFKA, 9092), (REDIS, 6379)):
        assert allowed(objects, instance, server, port)
    assert allowed(objects, gateway, instance, API)
    assert allowed(objects, gateway, pod("api", "names"), API)
    assert allowed(objects, test, instance, API)
    assert allowed(objects, pod("ask", "gateway"), gateway, API)
    for source in (instance, gateway, test):
        for protocol in ("UDP", "TCP"):
            assert allowed(objects, source, in_namespace("kube-system"), 53, protocol)
    for port in (443, 6443):
        assert allowed(objects, gateway, ELSEWHERE, port)


def test_nobody_else_is_reached_or_reaches_them(objects: list[Object]) -> None:
    instance, gateway = pod("api"), pod("api", "gateway")
    same_elsewhere = (replace(instance, namespace="another"), replace(gateway, namespace="another"))
    for source in (STRANGER, INGRESS, PROMETHEUS, ELSEWHERE, *same_elsewhere):
        for port in (API, STATUS, PROBES, DRIVER, BLOCKS):
            assert not allowed(objects, source, instance, port)
            assert not allowed(objects, source, gateway, port)
    for port in (STATUS, PROBES, DRIVER, BLOCKS):
        assert not allowed(objects, pod("api", "names"), instance, port)
    for port in (443, 6443, 80, 3306):
        assert not allowed(objects, instance, ELSEWHERE, port)
    assert not allowed(objects, gateway, KAFKA, 9092)
    assert not allowed(objects, gateway, REDIS, 6379)


def test_a_command_reaches_kafka_and_redis() -> None:
    given = {"job.command": ["verify"]}
    objects, job = installed(given), pod("command", given=given)
    assert allowed(objects, job, KAFKA, 9092)
    assert allowed(objects, job, REDIS, 6379)
    assert not allowed(objects, job, ELSEWHERE, 443)


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ({}, {9092, 6379}),
        ({"kafka.bootstrap": "a.company:19092,b.company:29092"}, {19092, 29092, 6379}),
        ({"redis.url": "rediss+cluster://a.company:7000"}, {9092, 7000}),
        ({"redis.url": "redis://redis.company/2"}, {9092, 6379}),
        ({"redis.url": "redis+sentinel://a.company,b.company:26380/profiles/0"}, {9092, 6379, 6380, 26379, 26380}),
        ({"kafka.tokenUrl": "https://issuer.company/token"}, {9092, 6379, 443}),
        ({"registry.url": "https://schemas.company"}, {9092, 6379, 443}),
        ({"registry.url": "http://schemas.company:8085/api"}, {9092, 6379, 8085}),
        ({"networkPolicy.egressPorts": [3128]}, {9092, 6379, 3128}),
        ({"stream.executors.count": 1}, {9092, 6379, 443, 6443}),
    ],
    ids=str,
)
def test_the_ports_that_the_values_name_are_reached_and_no_other(given: Given, ports: set[int]) -> None:
    objects, instance = installed(given), pod("stream", given=given)
    tried = {80, 443, 3128, 6379, 6380, 6443, 7000, 8081, 8085, 9092, 9093, 19092, 26379, 26380, 29092}
    assert {port for port in tried if allowed(objects, instance, ELSEWHERE, port)} == ports


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ({}, {443, 6443}),
        ({"access.limitsRedis.url": "rediss://redis.company:6380/0"}, {443, 6443, 6380}),
        ({"settings": {"JWT_JWKS": "https://issuer.company:8443/keys"}}, {443, 6443, 8443}),
        ({"settings": {"JWT_JWKS": "https://issuer.company/keys"}}, {443, 6443}),
    ],
    ids=str,
)
def test_the_gateway_reaches_the_api_server_and_what_access_needs(given: Given, ports: set[int]) -> None:
    objects, gateway = installed(gateway=given), pod("api", "gateway")
    tried = {80, 443, 6379, 6380, 6443, 8443, 9092}
    assert {port for port in tried if allowed(objects, gateway, ELSEWHERE, port)} == ports


@pytest.mark.parametrize(
    ("given", "reading"),
    [
        ({"serviceMonitor.enabled": True}, {PROMETHEUS, STRANGER, INGRESS}),
        ({"networkPolicy.prometheus": [MONITORING]}, {PROMETHEUS}),
        ({"serviceMonitor.enabled": True, "networkPolicy.prometheus": [MONITORING]}, {PROMETHEUS}),
        ({}, set()),
    ],
    ids=str,
)
def test_metrics_are_read_by_prometheus_and_nothing_else_is(given: Given, reading: set[Any]) -> None:
    objects = installed(given, given)
    for target, ports in ((pod("api"), (STATUS, PROBES)), (pod("api", "gateway"), (PROBES,))):
        for port in ports:
            assert {each for each in (PROMETHEUS, STRANGER, INGRESS) if allowed(objects, each, target, port)} == reading
        for port in (API, DRIVER):
            assert not allowed(objects, PROMETHEUS, target, port)


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ({"ingress.enabled": True}, {INGRESS, STRANGER, ELSEWHERE}),
        ({"httpRoute": {"enabled": True, "parentRefs": [{"name": "company"}]}}, {INGRESS, STRANGER, ELSEWHERE}),
        ({"service.type": "LoadBalancer"}, {INGRESS, STRANGER, ELSEWHERE}),
        ({"ingress.enabled": True, "networkPolicy.from": [MONITORING]}, {PROMETHEUS}),
        ({"networkPolicy.from": [MONITORING]}, {PROMETHEUS}),
    ],
    ids=str,
)
def test_an_exposed_gateway_is_reached_by_all_or_by_those_that_are_named(given: Given, reached: set[Any]) -> None:
    objects, gateway = installed(gateway=given), pod("api", "gateway")
    reached |= {PROMETHEUS} if INGRESS in reached else set()
    tried = (INGRESS, PROMETHEUS, STRANGER, ELSEWHERE)
    assert {each for each in tried if allowed(objects, each, gateway, API)} == reached
    assert not allowed(objects, INGRESS, gateway, PROBES)
    assert not allowed(objects, INGRESS, pod("api"), API)


def test_executors_and_their_driver_reach_each_other_only() -> None:
    given = {"stream.executors.count": 1}
    objects = installed(given)
    driver, executor = pod("stream", given=given), pod("executor", given=given)
    for port in (DRIVER, BLOCKS):
        assert allowed(objects, executor, driver, port)
        assert not allowed(objects, pod("api", "gateway"), driver, port)
    assert allowed(objects, driver, executor, 35_000)
    assert allowed(objects, executor, KAFKA, 9092)
    assert not allowed(objects, STRANGER, executor, 35_000)
    assert not allowed(objects, pod("api", "names"), executor, 35_000)
