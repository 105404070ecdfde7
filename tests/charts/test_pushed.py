"""Images pushed by `make push`, and the verification of their signatures at a pull."""

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from devkit.images.catalogue import images
from tests.charts.conftest import SIGNER, make

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
