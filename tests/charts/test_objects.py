"""Every object of every chart, in every shape that is tried."""

from importlib import import_module
from inspect import getmembers
from pathlib import Path

import kubernetes_validate
import pytest
from pydantic_settings import BaseSettings

from devkit.charts.charts import CHARTS
from streamstate.settings import PREFIX, ApiSettings, GatewaySettings, StreamSettings
from tests.charts.rendering import SHAPES, Object, environment, helm, of_kind, pods, render

OTHERS = {"ServiceMonitor", "ScaledObject"}
"""Kinds that Kubernetes itself does not have."""

KUBERNETES = "1.33"


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}-{shape[1].stem if shape[1] else 'default'}")
def shape(request: pytest.FixtureRequest) -> tuple[str, Path | None]:
    found: tuple[str, Path | None] = request.param
    return found


@pytest.fixture
def objects(shape: tuple[str, Path | None]) -> list[Object]:
    return render(*shape)


@pytest.mark.parametrize("chart", CHARTS)
def test_helm_finds_no_fault(chart: str) -> None:
    found = helm("lint", "--strict", f"charts/{chart}")
    assert found.returncode == 0, found.stdout


def test_kubernetes_knows_every_field(objects: list[Object]) -> None:
    for one in objects:
        if one["kind"] not in OTHERS:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
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
    asking = {one["metadata"]["name"] for one in of_kind(objects, "Role")}
    with_token = {spec["serviceAccountName"] for _, spec in pods(objects) if spec["automountServiceAccountToken"]}
    assert with_token == asking
    assert all(one["automountServiceAccountToken"] is False for one in of_kind(objects, "ServiceAccount"))
    assert bool(asking) == (shape[0] == "gateway" or "executor" in str(objects))


def test_processes_that_stay_are_probed_and_have_resources(objects: list[Object]) -> None:
    for one in of_kind(objects, "StatefulSet") + of_kind(objects, "Deployment"):
        for container in one["spec"]["template"]["spec"]["containers"]:
            assert {"readinessProbe", "livenessProbe"} <= set(container)
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


def test_objects_find_one_another(objects: list[Object]) -> None:
    labels = [metadata.get("labels", {}) for metadata, _ in pods(objects)]
    for one in objects:
        if one["kind"] in ("Service", "StatefulSet", "Deployment", "PodDisruptionBudget", "NetworkPolicy"):
            spec = one["spec"]
            selector = spec.get("selector") or spec["podSelector"]
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= found.items() for found in labels), one
    services = {one["metadata"]["name"] for one in of_kind(objects, "Service")}
    assert {one["spec"]["serviceName"] for one in of_kind(objects, "StatefulSet")} <= services


def _is_settings(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseSettings)


@pytest.mark.parametrize("chart", [name for name in CHARTS if name != "infra"])
def test_every_variable_is_a_setting(chart: str) -> None:
    """What the charts say is what the processes read; stream and API share what they agree on, and take their part."""
    kinds: list[type[BaseSettings]] = [GatewaySettings] if chart == "gateway" else [StreamSettings, ApiSettings]
    if Path(f"services/{chart}/settings.py").exists():
        kinds += [kind for _, kind in getmembers(import_module(f"services.{chart}.settings"), _is_settings)]
    known = {f"{PREFIX}{name.upper()}" for kind in kinds for name in kind.model_fields}
    for name, path in SHAPES:
        if name == chart:
            objects = render(name, path)
            for container in ("api",) if chart == "gateway" else ("api", "stream"):
                assert set(environment(objects, container)) <= known
