"""An archive of Spark's classes, from which the JVMs of streams start in two thirds of the time (JEP 350).

`python -m devkit.class_archive FILE` makes it. A JVM with other jars than those of the archive does without it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from streamstate.settings import StreamSettings
from streamstate.spark.process import session

ARCHIVE = "spark.jsa"
"""Its name in the folder of what was downloaded."""

JAVA_OPTIONS = "spark.driver.defaultJavaOptions"


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main() -> None:
    """Run a query as a stream does, in a JVM that archives its classes at its end."""
    archive = Path(sys.argv[1]).absolute()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        options = {"spark.local.dir": folder, JAVA_OPTIONS: f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds=off"}
        settings = StreamSettings.model_validate({"jars": archive.parent / "spark", "spark": options})
        spark, jvm = session(settings)
        rows = spark.readStream.format("rate").load().mapInArrow(same, "timestamp timestamp, value long")
        query = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
        query.processAllAvailable()
        query.stop()
        spark.stop()
        # Closes its input, with which it ends.
        jvm.communicate()


if __name__ == "__main__":
    main()
