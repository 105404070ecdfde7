"""The Spark session of a stream process, tuned for small micro-batches."""

import os
import sys

from pyspark.sql import SparkSession

from streamstate.settings import StreamSettings
from streamstate.spark.jars import jars

_TUNING = {
    # Batches are planned alike and small; what would be re-planned or watched costs more than it brings.
    "spark.sql.adaptive.enabled": "false",
    # The source makes its row converters anew for each partition of each batch: generating their code takes a quarter
    # of the JVM's time at a steady load. Whole stages, which see many rows, are compiled all the same.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Each micro-batch has a description made for the listeners of which there are none.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # Several services in one session share the slots evenly, so that one's backlog does not hold up the others.
    "spark.scheduler.mode": "FAIR",
    "spark.locality.wait": "0",
    # How often an idle query looks for records. Each look costs Spark and Kafka together 2 ms of CPU.
    "spark.sql.streaming.pollingDelay": "250ms",
    # A plain rename on tmpfs instead of the checked one: 150 ms a batch become 35.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # No delayed acknowledgements between JVM and workers: 40 ms a task.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "streamstate.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.log.level": "ERROR",
    # The second compiler and a parallel collector take a third of all CPU time and bring nothing here: the work is in
    # Kafka's client, in copying and in Python.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(settings: StreamSettings) -> SparkSession:
    """Start (or get) the session of this process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.appName(settings.instance)
        .master(settings.master or f"local[{settings.slots}]")
        .config("spark.driver.memory", settings.driver_memory)
        .config("spark.jars", ",".join(str(jar) for jar in jars(settings.jars)))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", settings.commit_records)
    )
    for name, value in {**_TUNING, **settings.spark}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
