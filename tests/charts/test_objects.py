"""Every object of every chart, in every shape that is tried."""

from pathlib import Path

import kubernetes_validate
import pytest

from devkit.charts.charts import Pods, charts
from devkit.charts.variables import processes
from streamstate.settings import PREFIX
from tests.charts.rendering import KUBERNETES, SHAPES, Object, environment, helm, of_kind, pods, render

OTHERS = {"ServiceMonitor", "ScaledObject", "PrometheusRule", "HTTPRoute"}
"""Kinds that Kubernetes itself does not have."""


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}-{shape[1].stem if shape[1] else 'default'}")
def shape(request: pytest.FixtureRequest) -> tuple[str, Path | None]:
    chart_and_values: tuple[str, Path | None] = request.param
    return chart_and_values


@pytest.fixture
def objects(shape: tuple[str, Path | None]) -> list[Object]:
    return render(*shape)


@pytest.mark.parametrize("chart", charts())
def test_helm_finds_no_fault(chart: str) -> None:
    lint = helm("lint", "--strict", f"charts/{chart}")
    assert lint.returncode == 0, lint.stdout


def test_kubernetes_knows_every_field(objects: list[Object]) -> None:
    for item in objects:
        if item["kind"] not in OTHERS:
            kubernetes_validate.validate(item, KUBERNETES, strict=True)
    for _, spec in pods(objects):
        kubernetes_validate.validate(_pod(spec), KUBERNETES, strict=True)


def _pod(spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}


def test_pods_are_restricted(objects: list[Object]) -> None:
    """Pod Security Standards, "restricted", and more: nothing is written, nothing learnt of other Services."""
    for _, spec in pods(objects):
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)


def test_only_who_asks_the_api_server_has_a_token(shape: tuple[str, Path | None], objects: list[Object]) -> None:
    asking = {item["metadata"]["name"] for item in of_kind(objects, "Role")}
    with_token = {spec["serviceAccountName"] for _, spec in pods(objects) if spec["automountServiceAccountToken"]}
    assert with_token == asking
    assert all(item["automountServiceAccountToken"] is False for item in of_kind(objects, "ServiceAccount"))
    assert bool(asking) == (shape[0] in ("gateway", "suite") or "executor" in str(objects))


def test_processes_that_stay_are_probed_and_have_resources(objects: list[Object]) -> None:
    for item in of_kind(objects, "StatefulSet") + of_kind(objects, "Deployment"):
        for container in item["spec"]["template"]["spec"]["containers"]:
            assert {"readinessProbe", "livenessProbe"} <= set(container)
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


def test_objects_find_one_another(objects: list[Object]) -> None:
    labels = [metadata.get("labels", {}) for metadata, _ in pods(objects)]
    for item in objects:
        if item["kind"] in ("Service", "StatefulSet", "Deployment", "PodDisruptionBudget", "NetworkPolicy"):
            spec = item["spec"]
            selector = spec.get("selector") or spec["podSelector"]
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= found.items() for found in labels), item
    services = {item["metadata"]["name"] for item in of_kind(objects, "Service")}
    assert {item["spec"]["serviceName"] for item in of_kind(objects, "StatefulSet")} <= services


@pytest.mark.parametrize("chart", [name for name, values in charts().items() if isinstance(values, Pods)])
def test_every_variable_is_a_setting(chart: str) -> None:
    """The variables of the charts are the settings of the processes, shared by stream and API or of one process."""
    known = {f"{PREFIX}{name.upper()}" for kind in processes(chart) for name in kind.model_fields}
    for name, path in SHAPES:
        if name == chart:
            objects = render(name, path)
            for container in {"gateway": ("api",), "archive": ("archiver",)}.get(chart, ("api", "stream")):
                ours = {name for name in environment(objects, container) if name.startswith(PREFIX)}
                assert ours <= known
