"""An archive of Spark's classes, which shortens the start of the JVMs of streams by a third (JEP 350).

`python -m devkit.servers.class_archive FILE` writes the archive. A JVM with other jars ignores the archive.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from streamstate.settings import StreamSettings
from streamstate.spark.jars import fetch
from streamstate.spark.process import session

ARCHIVE = "spark.jsa"
"""Its name in the folder of downloads."""

JAVA_OPTIONS = "spark.driver.defaultJavaOptions"


def shared_classes(archive: Path, spark: str) -> str:
    """The setting SPARK `spark`, extended by the classes of `archive`, if present."""
    given: dict[str, str] = json.loads(spark)
    if archive.exists():
        given[JAVA_OPTIONS] = f"-XX:SharedArchiveFile={archive} {given.get(JAVA_OPTIONS, '')}"
    return json.dumps(given)


def spark_in(folder: Path) -> str:
    """The setting SPARK for a stream with all files of Spark in `folder`."""
    java = f"-Djava.io.tmpdir={folder}"
    return json.dumps({"spark.local.dir": str(folder), JAVA_OPTIONS: java})


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main() -> None:
    """Run a query as a stream does, in a JVM that archives its classes at its end."""
    archive = Path(sys.argv[1]).absolute()
    fetch(archive.parent / "spark")
    with TemporaryDirectory() as folder:
        options = {"spark.local.dir": folder, JAVA_OPTIONS: f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds=off"}
        settings = StreamSettings.model_validate({"jars": archive.parent / "spark", "spark": options})
        spark, gateway = session(settings)
        rows = spark.readStream.format("rate").load().mapInArrow(same, "timestamp timestamp, value long")
        query = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
        query.processAllAvailable()
        query.stop()
        spark.stop()
        # Closes its input, with which it ends.
        gateway.proc.communicate()


if __name__ == "__main__":
    main()
