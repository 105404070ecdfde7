"""What a stream leaves behind when it ends; real Kafka, Redis and Spark."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from devkit.local_cluster import spark_in
from tests.deployment import Deployment


@pytest.fixture
def folder() -> Iterator[Path]:
    """A shorter path than that of `tmp_path`: Spark has a socket in it, whose path has 107 characters at most."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_no_temporary_files_are_left(deployment: Deployment, folder: Path) -> None:
    """Spark deletes its files when its JVM ends, which an end of the stream must wait for."""
    deployment.send(100)
    stream = deployment.stream(SPARK=spark_in(folder))
    deployment.folded(100)
    assert list(folder.iterdir())
    assert stream.stop() == 0
    assert list(folder.iterdir()) == []
