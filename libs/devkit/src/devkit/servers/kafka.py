"""A real Kafka: a single broker in KRaft mode, started from its jars."""

import logging
import subprocess
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from devkit import DevkitError
from devkit.servers.child_process import LOCALHOST, Child, free_port, require_free_port
from streamstate.spark.jars import downloading, java, retrieve

VERSION = "4.1.1"
STARTED_S = 180
"""After a kill, log recovery takes a minute on a busy machine."""
_CLUSTER_ID = "c3RyZWFtc3RhdGUta2Fma2"
_MAIN = f"kafka_2.13-{VERSION}.jar"
# Without a logger, SLF4J drops the broker's reasons for not starting.
_MODULES = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_LOGGING = tuple(
    f"-Dorg.slf4j.simpleLogger.{setting}"
    for setting in ("defaultLogLevel=warn", "showDateTime=true", "dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS")
)
# For a broker that starts often and works little, a second compiler and a parallel collector cost more than they save.
_JVM = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true", *_LOGGING)
_HEAP = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC")

# Events may have times years ago: retention by time would delete such events at once. A killed broker rejoins
# after the end of its last session, so the session timeout is short.
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
log.retention.ms=-1
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.cleaner.dedupe.buffer.size=16777216
"""


def fetch(directory: Path) -> None:
    """Download the broker's jars (43 MB, a minute) to `directory`, unless present. Raises `JarError`."""
    if (directory / _MAIN).exists():
        return
    logging.getLogger(__name__).info("Kafka's jars come to %s; this takes about a minute, once", directory)
    with downloading(directory) as scratch:
        brought = retrieve(_MODULES, scratch, transitive=True).iterdir()
        # The main jar comes last: its presence means that all jars are present.
        for jar in sorted(brought, key=lambda jar: jar.name == _MAIN):
            jar.replace(directory / jar.name)


class Kafka(Child):
    """A broker on 127.0.0.1. A restart on the same folder keeps topics, records and groups."""

    def __init__(self, directory: Path, port: int, jars: Path, properties: str = "") -> None:
        """Keep the jars in `jars`, and everything else in `directory`. Raises `JarError` without Java.

        `properties` are further lines of `server.properties`, with the same placeholders.
        """
        self._directory = directory.absolute()
        self._port = port
        self._jars = jars.absolute()
        self._template = _PROPERTIES + properties
        self._properties = self._directory / "server.properties"
        self._java = (java(), *_JVM, "-cp", f"{self._jars}/*")
        argv = (*self._java[:1], *_HEAP, *self._java[1:], "kafka.Kafka", str(self._properties))
        super().__init__("Kafka", argv, self._directory / "kafka.log")

    @property
    def bootstrap(self) -> str:
        """Its `bootstrap.servers`."""
        return f"{LOCALHOST}:{self._port}"

    def start(self) -> None:
        """Start the broker and wait until it serves (about 5 s; a minute more for the jars the first time).

        Raises `DevkitError` with the end of the log after a failed start, and `JarError` without jars or Java.
        """
        require_free_port(self.name, self._port, "KAFKA_PORT")
        fetch(self._jars)
        new = self._configure()
        super().start()
        quick = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 50}
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **quick})
        self.wait_until(lambda: _serves(admin), timeout=STARTED_S)
        if new:
            # The first transaction creates a log, for which clients would wait too short a time on a busy machine.
            first = {"bootstrap.servers": self.bootstrap, "transactional.id": "first", **quick}
            Producer(first).init_transactions(STARTED_S)

    def _configure(self) -> bool:
        """Write the properties; returns whether the folder is new."""
        data = self._directory / "data"
        self._directory.mkdir(parents=True, exist_ok=True)
        settings = self._template.format(host=LOCALHOST, port=self._port, controller=free_port(), data=data)
        self._properties.write_text(settings)
        new = not (data / "meta.properties").exists()
        if new:
            options = (f"--cluster-id={_CLUSTER_ID}", "--config", str(self._properties))
            argv = (*self._java, "kafka.tools.StorageTool", "format", *options)
            run = subprocess.run(argv, check=False, capture_output=True, text=True)
            if run.returncode != 0:
                msg = f"Kafka's folder {data} cannot be prepared; remove it and start again:\n{run.stderr}"
                raise DevkitError(msg)
        return new


def _serves(admin: AdminClient) -> bool:
    # After a restart Kafka describes partitions before it serves requests: only reading an end proves readiness.
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka leaves it without types
    try:
        topics = admin.list_topics(timeout=1.0).topics.items()
        ends = {TopicPartition(name, number): latest for name, topic in topics for number in topic.partitions}
        for end in admin.list_offsets(ends, request_timeout=5.0).values() if ends else ():
            end.result()
    except KafkaException:
        return False
    return True
