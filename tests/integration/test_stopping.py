"""Leftovers of an ended stream; real Kafka, Redis and Spark."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from devkit.local_cluster import spark_in
from tests.deployment import Deployment


@pytest.fixture
def folder() -> Iterator[Path]:
    """A shorter path than `tmp_path`: Spark's socket in the folder has a path of at most 107 characters."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_no_temporary_files_are_left(deployment: Deployment, folder: Path) -> None:
    """Files of a killed stream are deleted at the next start, files of a stopped stream at its end."""

    def folders() -> list[Path]:
        return [path for path in folder.iterdir() if path.is_dir()]

    deployment.send(100)
    killed = deployment.stream(SPARK=spark_in(folder))
    deployment.folded(100)
    left = folders()
    assert left
    killed.child.kill()
    assert folders() == left
    deployment.send(100)
    stream = deployment.stream(SPARK=spark_in(folder))
    deployment.folded(200)
    assert not any(path.exists() for path in left)
    assert stream.stop() == 0
    assert folders() == []
