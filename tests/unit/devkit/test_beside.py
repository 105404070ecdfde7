"""Releases in a file, run as child processes."""

import sys
from pathlib import Path

from devkit.beside import Beside
from devkit.child_process import Child
from streamstate.releases import file


def test_releases_run_while_they_are_in_the_file(tmp_path: Path) -> None:
    def make(name: str, release: file.ByHand) -> list[Child]:
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        return [Child(f"{name} of {release.package}", argv, tmp_path / f"{name}.log")]

    said: list[str] = []
    beside = Beside(tmp_path / "releases.json", make, said.append)
    beside.tend()
    assert beside.children == []
    release = file.ByHand("127.0.0.1:8102", "services.metrics")
    file.write(beside.path, file.with_release({}, "metrics", "metrics-2", release))
    beside.tend()
    beside.tend()
    [child] = beside.children
    assert [child.alive for child in beside.children] == [True]
    assert child.name == "metrics-2 of services.metrics"
    file.write(beside.path, file.with_release(file.read(beside.path), "metrics", "metrics-2", None))
    beside.tend()
    assert beside.children == []
    assert not child.alive
    assert said == ["starting the release metrics-2", "stopping the release metrics-2"]
