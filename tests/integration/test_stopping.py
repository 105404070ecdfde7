"""What a stream leaves behind when it ends; real Kafka, Redis and Spark."""

from pathlib import Path

from devkit.local_cluster import spark_in
from tests.deployment import Deployment


def test_no_temporary_files_are_left(deployment: Deployment, tmp_path: Path) -> None:
    """Spark deletes its files when its JVM ends, which an end of the stream must wait for."""
    deployment.send(100)
    stream = deployment.stream(SPARK=spark_in(tmp_path))
    deployment.folded(100)
    assert list(tmp_path.iterdir())
    assert stream.stop() == 0
    assert list(tmp_path.iterdir()) == []
