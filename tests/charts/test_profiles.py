"""The chart `profile`: any number of releases, a declaration each."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import Object, environment, helm, identities, of_kind, parsed, pods, render
from tests.serving import Served, new_address

DECLARED = Path("charts/profile/ci/01-declared-values.yaml")
HABITS = Path("services/profile/habits.yaml")
MOUNTED = {"name": "profile", "mountPath": "/etc/streamstate/profile", "readOnly": True}


def installed(release: str, file: Path) -> list[Object]:
    """The objects of `helm install RELEASE charts/profile --set-file profile=FILE`."""
    rendered = helm("template", release, "charts/profile", "--set-file", f"profile={file}")
    assert rendered.returncode == 0, rendered.stderr
    return parsed(rendered.stdout)


def annotations(objects: list[Object]) -> list[str]:
    return [metadata["annotations"]["checksum/config"] for metadata, _ in pods(of_kind(objects, "StatefulSet"))]


def test_every_container_reads_the_declaration_of_the_release() -> None:
    objects = render("profile", DECLARED, release="rooms")
    [config] = [each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == "rooms-profile"]
    assert config["data"] == {"profile.yaml": yaml.safe_load(DECLARED.read_text())["profile"]}
    for container in ("stream", "api", "command", "ask"):
        assert environment(objects, container)["STREAMSTATE_PROFILE"] == "/etc/streamstate/profile/profile.yaml"
    containers = 0
    for _, spec in pods(objects):
        assert {"name": "profile", "configMap": {"name": "rooms-profile"}} in spec["volumes"]
        for container in spec["containers"]:
            containers += 1
            assert MOUNTED in container["volumeMounts"]
            assert container.get("image", "profile-stream").startswith("profile-")
    assert containers == 5


def test_a_file_is_given_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text('  # größer als {{ .Values }} "x" \\ $HOME, <key>\n' + HABITS.read_text())
    configs = of_kind(installed("odd", file), "ConfigMap")
    assert {"profile.yaml": file.read_text()} in [config["data"] for config in configs]


def test_a_changed_file_rolls_the_pods(tmp_path: Path) -> None:
    changed = tmp_path / "habits.yaml"
    changed.write_text(HABITS.read_text().replace("top: 5", "top: 6"))
    assert annotations(installed("habits", HABITS)) == annotations(installed("habits", HABITS))
    assert annotations(installed("habits", HABITS)) != annotations(installed("habits", changed))


def test_without_a_file_the_image_has_the_declaration() -> None:
    objects = render("profile")
    assert [config["metadata"]["name"] for config in of_kind(objects, "ConfigMap")] == ["habits"]
    assert "STREAMSTATE_PROFILE" not in environment(objects, "stream")


def test_two_profiles_of_a_namespace_share_nothing_and_the_gateway_finds_both() -> None:
    given = {"access.internalSecret.name": "rooms-internal"}
    habits, rooms = installed("habits", HABITS), render("profile", DECLARED, given, release="rooms")
    assert identities(habits).isdisjoint(identities(rooms))
    assert [environment(each, "stream")["STREAMSTATE_NAME"] for each in (habits, rooms)] == ["habits", "rooms"]
    gateway = render("gateway", given={"services.rooms": "rooms"})
    watched = json.loads(environment(gateway, "api")["STREAMSTATE_SERVICES"])
    for name, objects in (("habits", habits), ("rooms", rooms)):
        assert ("Service", watched[name]) in identities(objects)


# `helm test`: the program of its pod, run here against answers of a server.


@pytest.mark.parametrize(
    ("chart", "status", "body", "passes"),
    [
        ("gateway", 200, '{"status":"ready"}', True),
        ("gateway", 503, '{"status":503,"title":"not ready"}', False),
        ("gateway", 200, '{"status":"not-ready"}', False),
        ("gateway", 404, '{"status":"ready"}', False),
        ("metrics", 200, '{"service":"metrics"}', True),
        ("metrics", 401, '{"service":"metrics"}', False),
        ("metrics", 200, "{}", False),
    ],
)
def test_it_passes_when_the_answer_is_the_expected_one_only(chart: str, status: int, body: str, passes: bool) -> None:
    [pod] = of_kind(render(chart), "Pod")
    [program, _, contains] = pod["spec"]["containers"][0]["args"]

    def answer(_environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response(f"{status} -", [("Content-Length", str(len(body)))])
        return [body.encode()]

    server = Served(new_address(), answer)
    asked = [sys.executable, "-c", program, f"http://{server.address}/", contains]
    run = subprocess.run(asked, check=False, capture_output=True, text=True)
    server.stop()
    assert (run.returncode == 0) == passes, run.stderr
    assert "Traceback" not in run.stderr
    assert passes or body in run.stderr
