"""What a stream leaves behind when it ends; real Kafka, Redis and Spark."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from devkit.local_cluster import LocalCluster, spark_in
from tests.deployment import Deployment


@pytest.fixture
def folder() -> Iterator[Path]:
    """A shorter path than that of `tmp_path`: Spark has a socket in it, whose path has 107 characters at most."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_no_temporary_files_are_left(servers: LocalCluster, folder: Path) -> None:
    """Those of a stream that is killed go at the next start, those of one that is stopped with it."""

    def folders() -> list[Path]:
        return [path for path in folder.iterdir() if path.is_dir()]

    deployment = Deployment(servers, "stopping")
    deployment.create()
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
