"""A process that runs streams on demand, in one Spark: a stream starts in a second.

`python -m tests.stream_host PORT` answers the calls of `StreamHost`.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from unittest.mock import patch
from xmlrpc.client import ServerProxy
from xmlrpc.server import SimpleXMLRPCServer

from devkit.cluster.local_cluster import LocalCluster, variables
from devkit.servers.child_process import LOCALHOST, Child, free_port
from devkit.servers.class_archive import ARCHIVE, shared_classes
from streamstate import bootstrap
from streamstate.deployment.scratch import scratch
from streamstate.kafka import presence
from streamstate.settings import StreamSettings
from streamstate.spark import query, status
from streamstate.spark.process import session
from streamstate.spark.query import Stream
from streamstate.spark.run import Hosted

STARTED_S = 120
ENDED_S = 30
LOOK_S = 1.0
"""Seconds between two tries after a refusal, and between two looks at the group: tests wait for both."""


class StreamHost(Child):
    """The process; its streams belong to any cluster."""

    def __init__(self, home: Path, cache: Path) -> None:
        """`home` is for the log, `cache` has the downloads."""
        self._port = free_port()
        settings = {"JARS": str(cache / "spark"), "SPARK": shared_classes(cache / ARCHIVE, "{}")}
        argv = [sys.executable, "-m", "tests.stream_host", str(self._port)]
        super().__init__("stream host", argv, home / "streams.log", variables(settings))

    def start(self) -> None:
        """Start the process, and wait until it takes calls."""
        super().start()
        self.wait_until(self._answers, STARTED_S)

    def _answers(self) -> bool:
        try:
            return self.call("lives", "") is False
        except OSError:
            return False

    def call(self, method: str, *arguments: object) -> object:
        """Raises `xmlrpc.client.Fault` with the exception of the process."""
        with ServerProxy(f"http://{LOCALHOST}:{self._port}") as host:
            return getattr(host, method)(*arguments)

    def deployment(
        self, cluster: LocalCluster, package: str, name: str, topics: Mapping[str, str], **settings: str
    ) -> Child:
        """As `LocalCluster.deployment`, without a process of its own."""
        own = {"NAME": name, "TOPICS": json.dumps(dict(topics)), **settings}
        return _HostedStream(self, name, package, cluster.stream_variables(own))


class _HostedStream(Child):
    """A stream in the process of `host`, whose log it shares."""

    def __init__(self, host: StreamHost, name: str, package: str, environment: Mapping[str, str]) -> None:
        super().__init__(name, [], host.log)
        self._host = host
        self._package = package
        self._given = dict(environment)
        self._id = f"{name} {id(self)}"

    @property
    def alive(self) -> bool:
        return self._host.alive and bool(self._host.call("lives", self._id))

    def start(self) -> None:
        if not self._host.alive:
            self._host.start()
        self._logged = self.log.stat().st_size
        self._host.call("start", self._id, self._package, self._given)

    def stop(self, timeout: float = ENDED_S) -> int | None:
        return 0 if not self._host.alive or self._host.call("stop", self._id, timeout) else None

    def kill(self) -> None:
        """Kill the process, with all its streams; the next start of a stream starts it again."""
        self._host.kill()


class _Streams:
    """The calls that the process answers."""

    def __init__(self, settings: StreamSettings) -> None:
        self._slots = settings.slots
        self._spark, _ = session(settings)
        self._running: dict[str, tuple[threading.Thread, threading.Event]] = {}

    def start(self, stream_id: str, package: str, environment: Mapping[str, str]) -> bool:
        """Start a stream of the service `package` with these variables."""
        stopping = threading.Event()
        with patch.dict(os.environ, environment):
            settings = bootstrap.configure(StreamSettings, package)
            hosted = Hosted(bootstrap.app(package, settings), settings.instance, settings.advertise)
            stream = Stream(hosted, settings, self._spark, stopping, self._slots)
        status.serve([stream.status], settings.status_address)
        thread = threading.Thread(target=stream.run, name=stream.name, daemon=True)
        self._running[stream_id] = thread, stopping
        thread.start()
        return True

    def stop(self, stream_id: str, timeout_s: float) -> bool:
        """End a stream; whether it has ended in time."""
        thread, stopping = self._running.pop(stream_id, (None, None))
        if thread and stopping:
            stopping.set()
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    def lives(self, stream_id: str) -> bool:
        return stream_id in self._running and self._running[stream_id][0].is_alive()


def main() -> None:
    presence.MEMBERS_S = query.REFUSED_PAUSE_S = LOOK_S
    with scratch(Path(gettempdir(), f"streamstate-{os.getuid()}")) as files:
        settings = bootstrap.configure(StreamSettings)
        # A release waits in its tasks for another release.
        spark = {**settings.spark, "spark.local.dir": str(files), "spark.master": f"local[{2 * settings.slots}]"}
        streams = _Streams(settings.model_copy(update={"spark": spark}))
        server = SimpleXMLRPCServer((LOCALHOST, int(sys.argv[1])), logRequests=False)
        server.register_instance(streams)
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        server.serve_forever()


if __name__ == "__main__":
    main()
