"""What values say about pods holds for each of them: of the API, the stream, its executors, tests and commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.charts.rendering import Object, environment, of_kind, pods, render

SECURED = Path("charts/metrics/ci/01-secured-values.yaml")
OPENSHIFT = Path("charts/metrics/ci/03-openshift-values.yaml")


def spec_with(objects: list[Object], container: str) -> Object:
    [spec] = [spec for _, spec in pods(objects) if container in (item["name"] for item in spec["containers"])]
    return spec


def test_openshift_gives_the_user_where_the_values_leave_it() -> None:
    found = list(pods(render("metrics", OPENSHIFT)))
    assert len(found) == 3
    for _, spec in found:
        security = spec["securityContext"]
        assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert spec_with(render("metrics"), "stream")["securityContext"]["runAsUser"] == 10001


def test_every_pod_runs_where_the_values_say_with_their_priority_and_registry() -> None:
    wanted = {
        "nodeSelector": {"disk": "fast"},
        "priorityClassName": "important",
        "tolerations": [{"key": "batch", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    given = {"stream.executors.count": 1}
    for _, spec in pods(render("metrics", SECURED, given)):
        assert {name: spec[name] for name in wanted} == wanted
        assert "nodeAffinity" in spec["affinity"]


def test_pods_are_spread_over_zones_and_nodes_unless_the_values_say_otherwise() -> None:
    for chart, container in (("metrics", "stream"), ("recommendations", "api"), ("gateway", "api")):
        objects = render(chart)
        constraints = spec_with(objects, container)["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in constraints] == [
            "topology.kubernetes.io/zone",
            "kubernetes.io/hostname",
        ]
        labels = [each["labelSelector"]["matchLabels"] for each in constraints]
        [metadata] = [metadata for metadata, spec in pods(objects) if spec == spec_with(objects, container)]
        assert all(each.items() <= metadata["labels"].items() for each in labels)
    assert "topologySpreadConstraints" not in spec_with(render("metrics", SECURED), "stream")


@pytest.mark.parametrize("container", ["stream", "executor"])
@pytest.mark.parametrize(
    ("given", "volume"),
    [
        ({}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"stream.scratch": {"size": "5Gi"}}, {"emptyDir": {"sizeLimit": "5Gi"}}),
        (
            {"stream.scratch": {"size": "5Gi", "storageClass": "fast"}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "fast",
                            "resources": {"requests": {"storage": "5Gi"}},
                        }
                    }
                }
            },
        ),
    ],
    ids=["default", "size", "class"],
)
def test_spark_writes_to_a_disk_of_the_size_that_the_values_say(
    container: str, given: dict[str, Any], volume: Object
) -> None:
    objects = render("metrics", given={"stream.executors.count": 1, **given})
    spec = spec_with(objects, container)
    # Of an executor, Spark takes each volume with this prefix for its local directories.
    [found] = [item for item in spec["volumes"] if item["name"].startswith("spark-local-dir-")]
    assert found == {"name": found["name"], **volume}
    [mounts] = [item["volumeMounts"] for item in spec["containers"] if item["name"] == container]
    assert {"name": found["name"], "mountPath": "/scratch"} in mounts
    assert environment(objects, "stream")["SPARK_LOCAL_DIRS"] == "/scratch"


def test_the_stream_may_touch_pods_only_and_of_these_its_executors() -> None:
    objects = render("metrics", given={"stream.executors.count": 1}, release="eu")
    [role] = of_kind(objects, "Role")
    written = {resource for rule in role["rules"] if "create" in rule["verbs"] for resource in rule["resources"]}
    assert written == {"pods"}
    properties = json.loads(environment(objects, "stream")["STREAMSTATE_SPARK"])
    assert properties["spark.kubernetes.executor.disableConfigMap"] == "true"
    [policy] = of_kind(objects, "ValidatingAdmissionPolicy")
    [binding] = of_kind(objects, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"] == "default-eu-executors"
    [condition] = policy["spec"]["matchConditions"]
    assert condition["expression"] == 'request.userInfo.username == "system:serviceaccount:default:eu"'
    [executor] = [metadata for metadata, spec in pods(objects) if spec["containers"][0]["name"] == "executor"]
    assert executor["labels"]["app.kubernetes.io/instance"] == "eu"
    assert of_kind(render("metrics", OPENSHIFT), "ValidatingAdmissionPolicy") == []


def test_the_policy_of_executors_knows_each_of_their_volumes_and_secrets() -> None:
    """`tests/e2e` lets a cluster evaluate the expressions."""
    given = {
        "stream.executors.count": 1,
        "kafka": {"security": "SASL_SSL", "username": "eu", "passwordSecret": {"name": "password"}},
        "extraVolumes": [{"name": "data", "hostPath": {"path": "/data"}}, {"name": "far", "nfs": {"server": "a"}}],
        "extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "k"}}}, {"name": "B"}],
    }
    objects = render("metrics", given=given)
    [policy] = of_kind(objects, "ValidatingAdmissionPolicy")
    text = " ".join(rule["expression"] for rule in policy["spec"]["validations"])
    for volume in spec_with(objects, "executor")["volumes"]:
        [kind] = volume.keys() - {"name"}
        assert f'volume.name == "{volume["name"]}" && has(volume.{kind})' in text
    for named in ('secret.secretName == "password"', 'hostPath.path == "/data"', 'name.orValue("") == "mine"'):
        assert named in text
