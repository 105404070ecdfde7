"""The stream process: its signals, its Spark, and a thread for each hosted app."""

import math
import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import gettempdir
from typing import Any

import structlog
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streamstate.deployment import resources, tracing
from streamstate.deployment.scratch import scratch
from streamstate.errors import Misconfigured
from streamstate.kafka.security import Scalar
from streamstate.settings import StreamSettings
from streamstate.spark import status
from streamstate.spark.jars import jars, of_mechanism, require_name
from streamstate.spark.query import Stream
from streamstate.spark.run import Hosted, reason

log = structlog.get_logger()

# For small micro-batches.
_TUNING = {
    # Batches are planned alike and small; re-planning or monitoring costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
    # The source makes its row converters anew for each partition of each batch: generating their code takes a quarter
    # of the JVM's time at a steady load. Whole stages with many rows are compiled all the same.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark makes a description of each micro-batch for its listeners, of which there are none.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # Spark keeps the last thousand batches for its page, which is off: more than 100 MB.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.sql.ui.retainedExecutions": "1",
    # A stream has one job at a time, so the oldest job first gives all streams their turns. Fair pools prefer the first
    # name among pools without a running task.
    "spark.scheduler.mode": "FIFO",
    "spark.locality.wait": "0",
    # How often an idle query looks for records. Each look costs Spark and Kafka together 2 ms of CPU.
    "spark.sql.streaming.pollingDelay": "250ms",
    # A plain rename on tmpfs instead of the checked rename: 150 ms a batch become 35.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # No delayed acknowledgements between JVM and workers: 40 ms a task.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "streamstate.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.log.level": "ERROR",
    # The old generation is collected before its garbage makes the heap grow.
    "spark.cleaner.periodicGC.interval": "10min",
}

# The second compiler and a parallel collector take a third of all CPU time and bring nothing here: the work is in
# Kafka's client, in copying and in Python.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Without sizes, a driver's heap begins with a part of the machine's memory and fills slowly until the first full
# collection, like a leak. Long-lived objects take less than 90 MB; by default, a full collection would grow the old
# generation until 40 % are free.
_HEAP = "-Xms256m -XX:NewSize=128m -XX:MinHeapFreeRatio=10 -XX:+AlwaysPreTouch -XX:MetaspaceSize=160m"

_JVM_ENDED_S = 5

_ALONE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_ENCRYPTION = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
}
_SECRET = re.compile("secret$|password|token", re.IGNORECASE)
"""Names of properties that no command line may have."""


_LOCAL_DIR, _LOCAL_DIRS = "spark.local.dir", "SPARK_LOCAL_DIRS"
"""Spark's property, and its variable, which takes precedence."""


def run(hosted: list[Hosted], settings: StreamSettings) -> None:
    """As `serve`, with folders of this process for Spark's files."""
    with own_folders(settings) as own:
        serve(hosted, own)


@contextmanager
def own_folders(settings: StreamSettings) -> Iterator[StreamSettings]:
    """The settings with folders of this process for Spark's files; folders of killed processes are deleted."""
    of_user = Path(gettempdir(), f"streamstate-{os.getuid()}")
    parent = os.environ.get(_LOCAL_DIRS) or settings.spark.get(_LOCAL_DIR) or of_user
    # Of several folders, the first.
    parent = str(parent).partition(",")[0]
    before = {name: text for name, text in os.environ.items() if name == _LOCAL_DIRS}
    with scratch(settings.checkpoints) as checkpoints, scratch(Path(parent)) as files:
        os.environ[_LOCAL_DIRS] = str(files)
        own = {**settings.spark, _LOCAL_DIR: str(files)}
        try:
            yield settings.model_copy(update={"checkpoints": checkpoints, "spark": own})
        finally:
            del os.environ[_LOCAL_DIRS]
            os.environ.update(before)


@contextmanager
def batch_session(settings: StreamSettings) -> Iterator[SparkSession]:
    """The session of a process without streams, for the body: it needs no jars of Kafka's source."""
    with own_folders(settings.model_copy(update={"spark": {"spark.jars": "", **settings.spark}})) as own:
        spark, gateway = session(own)
        try:
            yield spark
        finally:
            end(spark, gateway)


def serve(hosted: list[Hosted], settings: StreamSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises `SystemExit` (status 1) when the JVM is gone; restart the process then.

    Raises `Misconfigured` when a credential file for Kafka, or a property of its clients, cannot be used.
    """
    stopping = threading.Event()
    # Before the JVM starts: the first process of a container ignores signals without a handler.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    spark, gateway = session(settings)
    try:
        require_known(spark, settings.kafka_source_properties)
    except Misconfigured:
        end(spark, gateway)
        raise
    # A Python task costs tens of milliseconds, so a batch has at most its share of the slots in tasks.
    tasks = math.ceil(settings.slots / len(hosted))
    streams = [Stream(app, settings, spark, stopping, tasks) for app in hosted]
    broken: list[BaseException] = []
    resources.look_at_new_objects_only()

    def guarded(stream: Stream) -> None:
        try:
            stream.run()
        except BaseException as error:
            broken.append(error)
            stopping.set()
            raise

    if settings.status_port:
        status.serve([stream.status for stream in streams], settings.status_address)
    threads = [threading.Thread(target=guarded, args=(stream,), name=stream.name, daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    stopping.wait()
    for thread in threads:
        thread.join(timeout=10)
    try:
        end(spark, gateway)
    except (Py4JError, OSError) as error:
        broken.append(error)
    if broken:
        log.error("the stream process ends; start it again", reason=reason(Exception(str(broken[0]))))
        raise SystemExit(1)


def end(spark: SparkSession, gateway: JavaGateway) -> None:
    """Stop the session, and wait for its JVM, which deletes its files, and may be killed after this process."""
    spark.stop()
    # While connected, objects that Python frees later ask the ended JVM to free theirs, and log that it is gone.
    gateway.shutdown()
    with suppress(TimeoutExpired):
        # Closes the JVM's input, at which the JVM ends.
        gateway.proc.communicate(timeout=_JVM_ENDED_S)


def properties(settings: StreamSettings) -> dict[str, str]:
    """Spark's properties. Without executors of their own, nothing listens for other machines."""
    own = {
        "spark.app.name": settings.instance,
        "spark.master": settings.master or f"local[{settings.slots}]",
        "spark.driver.memory": settings.driver_memory,
        "spark.jars": ",".join(map(str, [*jars(settings.jars), *_login_jars(settings)])),
    }
    network = _encrypted(settings) if settings.master else _ALONE
    java = _java(settings)
    files = f"-Djava.io.tmpdir={settings.spark[_LOCAL_DIR]}"
    options = {"spark.driver.extraJavaOptions": f"{java} {_HEAP} {files}", "spark.executor.extraJavaOptions": java}
    # As many batches as there can be between two looks.
    kept = {"spark.sql.streaming.numRecentProgressUpdates": "100"} if tracing.wanted() else {}
    return {**own, **_TUNING, **options, **kept, **network, **settings.spark}


def _login_jars(settings: StreamSettings) -> list[Path]:
    by_sasl = settings.kafka_security.startswith("SASL_")
    return of_mechanism(settings.kafka_mechanism, settings.jars) if by_sasl else []


def require_known(spark: SparkSession, given: Mapping[str, Scalar]) -> None:
    """Raise `Misconfigured` where Java's consumer does not know, or refuses, a property in `given`."""
    if not given:
        return
    jvm: Any = spark.sparkContext._jvm
    consumer = jvm.org.apache.kafka.clients.consumer.ConsumerConfig
    if unknown := given.keys() - set(consumer.configNames()):
        raise Misconfigured(f"{_PROPERTIES}: Java's consumer has no property {', '.join(sorted(unknown))}")
    try:
        consumer({**_DESERIALIZERS, **{name: str(value) for name, value in given.items()}})
    except Py4JJavaError as error:
        raise Misconfigured(f"{_PROPERTIES}: {error.java_exception.getMessage()}") from error


_PROPERTIES = "change STREAMSTATE_KAFKA_SOURCE_PROPERTIES"
_DESERIALIZERS = {
    f"{of}.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer" for of in ("key", "value")
}
"""Without them, there is no configuration of a consumer."""


def _java(settings: StreamSettings) -> str:
    """The JVMs' options. Kafka's client requests tokens from the allowed URL only."""
    url = settings.kafka_token_url
    return f"{_JVM} -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}" if url else _JVM


def _encrypted(settings: StreamSettings) -> dict[str, str]:
    """Driver and executors authenticate by the secret, and encrypt their traffic."""
    if settings.master.startswith("k8s:"):
        # Spark's own way would show the secret in the description of each executor's pod.
        file = {"spark.authenticate.secret.file": str(settings.spark_secret)} if settings.spark_secret else {}
        return _ENCRYPTION | file
    secret = settings.spark_secret.read_text().strip() if settings.spark_secret else secrets.token_hex(32)
    return _ENCRYPTION | {"spark.authenticate.secret": secret}


def session(settings: StreamSettings) -> tuple[SparkSession, JavaGateway]:
    """Start the session of this process, and its JVM behind the gateway. Raises `Misconfigured` for a nameless user."""
    require_name()
    # Before the JVM and the clients of Kafka start their many threads.
    resources.use_few_arenas()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    given = properties(settings)
    # PySpark passes the JVM's options on the command line, readable for all users of a machine.
    public = {name: value for name, value in given.items() if not _SECRET.search(name)}
    gateway = launch_gateway(SparkConf().setAll([*public.items()]))  # type: ignore[no-untyped-call]
    return SparkSession(SparkContext(gateway=gateway, conf=SparkConf().setAll([*given.items()]))), gateway
