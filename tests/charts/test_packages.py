"""The installation of charts: by Helm 3 and 4, from packages and a registry, and as a single release."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from devkit.charts.charts import charts
from devkit.charts.files import FOLDER, dependencies
from devkit.registry import STANDARD, release
from tests.charts.conftest import SIGNER, make
from tests.charts.rendering import SHAPES, Object, helm, identities, of_kind, parsed, pods, render


def rendered(*arguments: str, program: str = "HELM") -> list[Object]:
    run = helm("template", *arguments, program=program)
    assert run.returncode == 0, run.stderr
    return parsed(run.stdout)


def known(objects: list[Object]) -> list[Object]:
    """Without what is drawn by chance, in the order of names."""
    for item in of_kind(objects, "Secret"):
        item["data"] = sorted(item["data"])
    return sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}-{shape[1].stem if shape[1] else 'default'}")
def test_helm_3_and_4_render_the_same(shape: tuple[str, Path | None]) -> None:
    chart, path = shape
    values = ["--values", str(path)] if path else []
    by_4 = rendered(release(chart), str(FOLDER / chart), *values, program="HELM4")
    assert known(by_4) == known(render(chart, path))


@pytest.fixture(scope="module")
def keyring(signer: Path) -> Path:
    """The key of `SIGNER`, as Helm reads it."""
    run = ["gpg", "--homedir", str(signer), "--batch", "--quiet", "--output", str(signer / "keyring")]
    subprocess.run([*run, "--export-secret-keys"], check=True)
    return signer / "keyring"


@pytest.fixture(scope="module")
def repository(registry: str) -> str:
    """Where the charts are in the registry."""
    return f"oci://{registry}/charts"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory, repository: str, keyring: Path) -> Path:
    """The folder of the packages that `make publish` has made, signed and pushed."""
    folder = tmp_path_factory.mktemp("packages")
    given = [f"PACKAGES={folder}", f"REGISTRY={repository}", "PUSH=--plain-http", f"HELM={os.environ['HELM']}"]
    make("publish", *given, f"KEY={SIGNER}", f"KEYRING={keyring}")
    return folder


def test_every_chart_is_published(packages: Path) -> None:
    versions = {chart: yaml.safe_load((FOLDER / chart / "Chart.yaml").read_text())["version"] for chart in charts()}
    assert {path.name for path in packages.glob("*.tgz")} == {f"{name}-{of}.tgz" for name, of in versions.items()}


def test_what_comes_from_the_registry_is_proven_to_be_ours(
    packages: Path, repository: str, keyring: Path, tmp_path: Path
) -> None:
    assert packages.exists()
    pull = ("pull", f"{repository}/metrics", "--plain-http", "--verify", "--destination", str(tmp_path), "--keyring")
    proven = helm(*pull, str(keyring))
    assert proven.returncode == 0, proven.stderr
    (tmp_path / "empty").touch()
    assert helm(*pull, str(tmp_path / "empty")).returncode != 0


def test_a_chart_of_the_registry_renders_as_that_of_the_clone(packages: Path, repository: str) -> None:
    assert packages.exists()
    for chart in ("metrics", "suite"):
        from_registry = rendered(chart, f"{repository}/{chart}", "--plain-http")
        assert known(from_registry) == known(render(chart))


def test_a_package_has_its_readme_and_nothing_of_the_tests(packages: Path) -> None:
    for path in packages.glob("*.tgz"):
        with tarfile.open(path) as archive:
            names = archive.getnames()
        assert any(name.endswith("/README.md") for name in names)
        assert [name for name in names if "/ci/" in name] == []


def test_a_cluster_that_is_too_old_is_refused() -> None:
    for chart in charts():
        refused = helm("template", chart, str(FOLDER / chart), "--kube-version", "1.29")
        assert "requires kubeVersion: >=1.30.0-0" in refused.stderr


def test_the_suite_is_every_chart_under_its_own_name() -> None:
    objects = render("suite", given={"install.infra": True, "install.archive": True}, release="company")
    apart = [item for chart in dependencies("suite") for item in render(chart)]
    ours = identities(objects)
    assert ours == identities(apart) - {("ConfigMap", "monitoring-dashboards")} | {("ConfigMap", "company-dashboards")}
    assert len(objects) == len(ours), "an object is made twice"
    assert set(dependencies("suite")) == {*STANDARD, "archive", "gateway", "infra", "monitoring"}


def test_a_part_of_the_suite_is_left_out_by_its_switch() -> None:
    objects = render("suite", Path("charts/suite/ci/01-some-values.yaml"))
    names = {item["metadata"]["name"] for item in of_kind(objects, "StatefulSet")}
    assert names == {"metrics", "names", "recommendations-stream", "kafka", "redis"}
    for metadata, spec in pods(objects):
        if metadata["labels"].get("app.kubernetes.io/name") in ("metrics", "names", "recommendations", "gateway"):
            assert "runAsUser" not in spec["securityContext"]


@pytest.mark.parametrize("program", ["HELM", "HELM4"])
def test_a_chart_of_somebody_else_contains_and_switches_ours(tmp_path: Path, program: str) -> None:
    """Helm puts the switch, and what is for all charts, into the values of the part, which its schema then sees."""
    ours = ("metrics", "gateway", "monitoring", "infra")
    parts = [{"name": name, "version": "*", "condition": f"{name}.enabled", "tags": ["profiles"]} for name in ours]
    chart = {"apiVersion": "v2", "name": "company", "version": "1.0.0", "dependencies": parts}
    (tmp_path / "charts").mkdir()
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(chart))
    for name in ours:
        (tmp_path / "charts" / name).symlink_to((FOLDER / name).resolve())
    given = {"global": {"company": {"zone": "a"}}, "tags": {"profiles": True}}
    for enabled in ([], ["metrics"], [*ours]):
        values = given | {name: {"enabled": name in enabled} for name in ours}
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        made = helm("template", "company", str(tmp_path), program=program)
        assert made.returncode == 0, made.stderr
        assert set(re.findall(r"^# Source: company/charts/(\w+)/", made.stdout, re.MULTILINE)) == set(enabled)
