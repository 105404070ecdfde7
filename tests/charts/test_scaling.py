"""Autoscalers, and how many pods may be evicted at a time."""

import pytest

from tests.charts.rendering import Object, of_kind, pods, render


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
