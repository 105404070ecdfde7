"""Autoscalers, and how many pods may be evicted at a time."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit.charts.charts import charts
from devkit.charts.files import FOLDER
from tests.charts.rendering import Object, environment, helm, of_kind, pods, render


def find_object(objects: list[Object], kind: str, name: str) -> Object:
    [found] = [item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize(("chart", "value"), [("gateway", "autoscaling"), ("recommendations", "api.autoscaling")])
def test_apis_that_any_instance_answers_for_scale_by_cpu(chart: str, value: str) -> None:
    objects = render(chart, given={f"{value}.enabled": True})
    deployment = find_object(objects, "Deployment", chart)
    assert "replicas" not in deployment["spec"]
    scaler = find_object(objects, "HorizontalPodAutoscaler", chart)["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": chart}
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 8)
    assert of_kind(render(chart), "HorizontalPodAutoscaler") == []
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "500m", "a percentage of less would mean hardly any work"


@pytest.mark.parametrize(("chart", "target"), [("metrics", "metrics"), ("recommendations", "recommendations-stream")])
def test_streams_scale_by_the_lag_of_their_group(chart: str, target: str) -> None:
    objects = render(chart, given={"autoscaling.enabled": True}, release=chart)
    [scaled] = of_kind(objects, "ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] == target
    assert "replicas" not in find_object(objects, "StatefulSet", target)["spec"]
    [trigger] = scaled["spec"]["triggers"]
    # Without a topic, KEDA looks at all of the group.
    assert trigger["metadata"] == {"bootstrapServers": "kafka:9092", "consumerGroup": chart, "lagThreshold": "50000"}


def test_a_release_beside_another_scales_by_the_lag_of_its_own_group() -> None:
    """Its values are those of the first release, with the settings that `streamstate stage` prints."""
    given = {"autoscaling.enabled": True, "settings.RELEASE_OF": "metrics", "settings.GROUP": ""}
    [scaled] = of_kind(render("metrics", given=given, release="metrics-2"), "ScaledObject")
    assert scaled["spec"]["triggers"][0]["metadata"]["consumerGroup"] == "metrics-2"


@pytest.mark.parametrize(
    ("chart", "budgets"),
    [
        ("metrics", {"metrics": "stream"}),
        ("recommendations", {"recommendations": "api", "recommendations-stream": "stream"}),
        ("gateway", {"gateway": "api"}),
    ],
)
def test_pods_of_each_kind_are_evicted_one_at_a_time(chart: str, budgets: dict[str, str]) -> None:
    objects = render(chart)
    found = {item["metadata"]["name"]: item["spec"] for item in of_kind(objects, "PodDisruptionBudget")}
    assert found.keys() == budgets.keys()
    for name, container in budgets.items():
        assert found[name]["maxUnavailable"] == 1
        selected = [
            spec
            for metadata, spec in pods(objects)
            if found[name]["selector"]["matchLabels"].items() <= metadata["labels"].items()
        ]
        assert [container in (item["name"] for item in spec["containers"]) for spec in selected] == [True]
    assert of_kind(render(chart, given={"podDisruptionBudget.enabled": False}), "PodDisruptionBudget") == []


# Whole numbers of a values file, which Helm reads as floats: 2000000 would be printed as 2e+06.

LARGE = 2_000_000


def large(values: Any) -> Any:
    """`values` with every whole number replaced by a large one."""
    match values:
        case bool():
            return values
        case int():
            return LARGE
        case dict():
            return {name: large(value) for name, value in values.items()}
        case list():
            return [large(value) for value in values]
        case _:
            return values


@pytest.mark.parametrize("chart", charts())
def test_a_whole_number_of_a_file_is_printed_as_one(chart: str, tmp_path: Path) -> None:
    values = large(yaml.safe_load((FOLDER / chart / "values.yaml").read_text()))
    for part in ("autoscaling", "api"):
        if part in values:
            scaling = values[part] if part == "autoscaling" else values[part].get("autoscaling", {})
            scaling |= {"enabled": True}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    # Its bounds are not asked about: what is printed is.
    rendered = helm("template", chart, str(FOLDER / chart), "--values", str(file), "--skip-schema-validation")
    assert rendered.returncode == 0, rendered.stderr
    assert "e+" not in rendered.stdout


# How the gateway, and any API, is reached: Service, Ingress and HTTPRoute.

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
