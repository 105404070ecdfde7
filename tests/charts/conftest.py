"""A registry on this machine, and a key to sign with."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.servers.child_process import Child, free_port

SIGNER = "releases@company"


def make(target: str, *variables: str, **environment: str) -> None:
    """Run `make` of this target; fails with the output of a failed target."""
    run = subprocess.run(
        ["make", target, *variables], check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; it speaks plain HTTP."""
    port, log = free_port(), tmp_path_factory.mktemp("registry") / "log"
    child = Child("the registry", [os.environ["OCI_REGISTRY"], "-port", str(port)], log)
    child.start()
    try:
        child.wait_until(lambda: "serving on port" in child.tail(), 30)
        yield f"localhost:{port}"
    finally:
        child.stop()


@pytest.fixture(scope="session")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a GnuPG that has a key of `SIGNER`."""
    home = tmp_path_factory.mktemp("gpg")
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"]
    try:
        subprocess.run([*gpg, "--quick-generate-key", SIGNER, "rsa2048", "sign"], check=True)
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=True)
