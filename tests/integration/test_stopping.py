"""What a stream leaves behind when it ends; real Kafka, Redis and Spark."""

import json
from pathlib import Path

from tests.deployment import Deployment


def test_no_temporary_files_are_left(deployment: Deployment, tmp_path: Path) -> None:
    """Spark deletes its files when its JVM ends, which an end of the stream must wait for."""
    spark = {"spark.local.dir": str(tmp_path), "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={tmp_path}"}
    deployment.send(100)
    stream = deployment.stream(SPARK=json.dumps(spark))
    deployment.folded(100)
    assert list(tmp_path.iterdir())
    assert stream.stop() == 0
    assert list(tmp_path.iterdir()) == []
