"""How the gateway, and any API, is reached: Service, Ingress and HTTPRoute."""

from pathlib import Path

from tests.charts.rendering import Object, environment, helm, of_kind, render

EXPOSED = Path("charts/gateway/ci/03-exposed-values.yaml")


def service(objects: list[Object], name: str) -> Object:
    [found] = [item for item in of_kind(objects, "Service") if item["metadata"]["name"] == name]
    return found


def test_the_service_has_the_type_port_and_annotations_of_the_values() -> None:
    objects = render("gateway", EXPOSED)
    found = service(objects, "gateway")
    assert found["metadata"]["annotations"] == {"cloud.company/internal": "true"}
    assert found["spec"]["type"] == "LoadBalancer"
    assert found["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    # Pods are asked at their own port.
    assert service(objects, "gateway-pods")["spec"]["ports"][0]["port"] == 8080


def test_who_asks_through_the_service_uses_its_port() -> None:
    objects = render("recommendations", given={"service.port": 9000})
    assert environment(objects, "stream")["STREAMSTATE_ADVERTISE"] == "recommendations.default.svc:9000"
    [test] = of_kind(objects, "Pod")
    assert "http://recommendations.default.svc:9000/processors" in test["spec"]["containers"][0]["args"]
    owner = environment(render("metrics", given={"service.port": 9000}), "stream")
    assert owner["STREAMSTATE_ADVERTISE"] == "$(STREAMSTATE_INSTANCE).metrics-pods.default.svc:8080"


def test_an_ingress_leads_every_host_to_the_gateway() -> None:
    [ingress] = of_kind(render("gateway", EXPOSED), "Ingress")
    assert ingress["metadata"]["annotations"] == {"cert-manager.io/cluster-issuer": "company"}
    spec = ingress["spec"]
    assert (spec["ingressClassName"], spec["tls"][0]["secretName"]) == ("nginx", "profiles-tls")
    assert [rule["host"] for rule in spec["rules"]] == ["profiles.company", "users.company"]
    for rule in spec["rules"]:
        [path] = rule["http"]["paths"]
        assert (path["path"], path["pathType"]) == ("/", "Prefix")
        assert path["backend"] == {"service": {"name": "gateway", "port": {"name": "http"}}}


def test_a_route_attaches_to_the_gateway_that_the_values_name() -> None:
    [route] = of_kind(render("gateway", EXPOSED), "HTTPRoute")
    assert route["spec"] == {
        "parentRefs": [{"name": "company", "namespace": "gateways"}],
        "hostnames": ["profiles.company"],
        "rules": [{"backendRefs": [{"name": "gateway", "port": 80}]}],
    }
    refused = helm("template", "gateway", "charts/gateway", "--set", "httpRoute.enabled=true")
    assert refused.returncode != 0
    assert "httpRoute.parentRefs names the Gateway" in refused.stderr
