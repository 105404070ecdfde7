"""skaffold.yaml: accepted by skaffold, and complete."""

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from devkit.charts import skaffold
from devkit.images.catalogue import images
from tests.charts.conftest import SIGNER, make
from tests.charts.rendering import KUBERNETES, identities, parsed, pods, render


def test_it_is_what_the_source_says() -> None:
    assert skaffold.PATH.read_text() == skaffold.text(), "run make docs"
    assert yaml.safe_load(skaffold.text()) == skaffold.document()


@pytest.fixture
def skaffold_home(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a skaffold that asks no cluster, and tells nobody of its use."""
    tools = tmp_path / "tools"
    tools.mkdir()
    helm = tools / "helm"
    # A Helm that is compiled from its module takes another Kubernetes for granted, and skaffold cannot say which.
    helm.write_text(f"""#!/bin/sh
case " $* " in *" template "*) set -- "$@" --kube-version {KUBERNETES} ;; esac
exec "{Path(os.environ["HELM"]).absolute()}" "$@"
""")
    helm.chmod(0o755)
    settings = tmp_path / ".skaffold" / "config"
    settings.parent.mkdir()
    settings.write_text("global: {collect-metrics: false, update-check: false}")
    return {**os.environ, "HOME": str(tmp_path), "PATH": f"{tools}:{os.environ['PATH']}"}


def chart_of(release: Mapping[str, Any]) -> str:
    return Path(release["chartPath"]).name


def run(home: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    called = [os.environ["SKAFFOLD"], *arguments]
    return subprocess.run(called, env=home, check=False, capture_output=True, text=True)


def test_skaffold_renders_what_the_charts_are_with_its_images(skaffold_home: Mapping[str, str], tmp_path: Path) -> None:
    images = [artifact["image"] for artifact in skaffold.document()["build"]["artifacts"]]
    built = tmp_path / "built.json"
    built.write_text(json.dumps({"builds": [{"imageName": image, "tag": f"{image}:built"} for image in images]}))
    rendered = run(skaffold_home, "render", "--offline", "--digest-source=tag", f"--build-artifacts={built}")
    assert rendered.returncode == 0, rendered.stderr
    objects = parsed(rendered.stdout)
    releases = skaffold.document()["deploy"]["helm"]["releases"]
    charts = [item for release in releases for item in render(chart_of(release), given=release.get("setValues"))]
    assert identities(objects) == identities(charts)
    ours = {spec["image"] for _, pod in pods(objects) for spec in pod["containers"] if ":built" in spec["image"]}
    assert ours == {f"{image}:built" for image in images}


def test_skaffold_takes_no_field_that_it_does_not_know(skaffold_home: Mapping[str, str], tmp_path: Path) -> None:
    wrong = tmp_path / "skaffold.yaml"
    wrong.write_text(yaml.safe_dump(skaffold.document() | {"bild": {}}))
    refused = run(skaffold_home, "diagnose", "--yaml-only", f"--filename={wrong}")
    assert refused.returncode != 0
    assert "field bild not found" in refused.stderr


def test_every_image_that_a_release_names_is_built() -> None:
    built = {artifact["image"] for artifact in skaffold.document()["build"]["artifacts"]}
    for release in skaffold.document()["deploy"]["helm"]["releases"]:
        for value, image in release.get("setValueTemplates", {}).items():
            assert image.removeprefix("{{.IMAGE_FULLY_QUALIFIED_").removesuffix("}}").replace("_", "-") in built
            assert render(chart_of(release), given={value: "image:1"})


def test_the_folder_of_charts_stays_as_it_is() -> None:
    """Unless told not to, skaffold adds an archive of the library chart, whose templates are then used for ever."""
    for release in skaffold.document()["deploy"]["helm"]["releases"]:
        depends = "dependencies" in yaml.safe_load(Path(release["chartPath"], "Chart.yaml").read_text())
        assert release.get("skipBuildDependencies", False) == depends


# Images pushed by `make push`, and the verification of their signatures at a pull.

TAG = "1.2.3"
OCI = "application/vnd.oci.image"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, registry: str) -> Path:
    """Stand-ins for the images of `make images`: each is a folder in the format of skopeo's `dir:`."""
    folder = tmp_path_factory.mktemp("built")
    for image in images():
        lay_out(folder / registry / "team" / f"{image.name}:{TAG}")
    return folder


def lay_out(folder: Path) -> None:
    """An image without content."""
    folder.mkdir(parents=True)

    def blob(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (folder / digest).write_bytes(content)
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    layer = blob("layer.v1.tar", bytes(2 * tarfile.BLOCKSIZE))
    files = {"type": "layers", "diff_ids": [layer["digest"]]}
    about = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": files}
    config = blob("config.v1+json", json.dumps(about).encode())
    manifest = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": config, "layers": [layer]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "version").write_text("Directory Transport Version: 1.1\n")


def push(built: Path, prefix: str, signer: Path, *variables: str) -> None:
    given = [f"BUILT=dir:{built}/", f"PREFIX={prefix}", f"TAG={TAG}", "PUSH=--dest-tls-verify=false"]
    make("push", *given, *variables, GNUPGHOME=str(signer))


def pulls(image: str, signer: Path, signatures: Path, folder: Path) -> str:
    """The error of skopeo's pull under a policy that requires signatures of `SIGNER`; empty after success."""
    key, policy, registries = folder / "key", folder / "policy.json", folder / "registries.d"
    gpg = ["gpg", "--homedir", str(signer), "--batch", "--yes", "--quiet", "--output", str(key), "--export", SIGNER]
    subprocess.run(gpg, check=True)
    policy.write_text(json.dumps({"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": str(key)}]}))
    registries.mkdir(exist_ok=True)
    (registries / "all.yaml").write_text(json.dumps({"default-docker": {"lookaside": f"file://{signatures}"}}))
    given = ["--policy", str(policy), "--registries.d", str(registries), "--src-tls-verify=false"]
    run = subprocess.run(
        ["skopeo", "copy", *given, f"docker://{image}", f"dir:{folder / 'pulled'}"],
        check=False,
        capture_output=True,
        text=True,
    )
    return run.stderr if run.returncode else ""


def test_an_image_that_was_signed_is_known_to_be_ours(built: Path, registry: str, signer: Path, tmp_path: Path) -> None:
    prefix, signatures = f"{registry}/team/", tmp_path / "signatures"
    push(built, prefix, signer)
    for image in images():
        assert "no signature exists" in pulls(f"{prefix}{image.name}:{TAG}", signer, signatures, tmp_path)
    push(built, prefix, signer, f"KEY={SIGNER}", f"SIGNATURES={signatures}")
    for image in images():
        assert not pulls(f"{prefix}{image.name}:{TAG}", signer, signatures, tmp_path)
