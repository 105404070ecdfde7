"""Kafka Streams on the same events and the same broker, by scripts that are not part of this project."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from devkit import DevkitError
from devkit.bench.event_latency import EventLatency
from devkit.bench.ingest import Ingest
from devkit.bench.read_load import Read
from devkit.bench.steady import RATE
from devkit.child_process import LOCALHOST, free_port
from devkit.local_cluster import LocalCluster

KAFKA_STREAMS = "Kafka Streams"
_APP = "bench"
_SECONDS = 5


@dataclass(frozen=True)
class Scripts:
    """The peers' scripts in `folder`; `cache` keeps jars and classes, `scratch` the application's state."""

    folder: Path
    cache: Path
    scratch: Path

    def build(self) -> None:
        """Fetch and compile what is missing. Raises `DevkitError`."""
        _output([str(self.folder / "streams/build.sh")], PEERS_CACHE=str(self.cache / "jars"))

    def run(self, command: str, cluster: LocalCluster, port: int, *options: str) -> Sequence[Mapping[str, Any]]:
        """The lines that `bench_streams.py` prints. Raises `DevkitError` when it fails."""
        broker = self.scratch / "broker.pid"
        broker.write_text(str(cluster.kafka.pid))
        settings = {
            "data": self.scratch,
            "bootstrap": cluster.kafka.bootstrap,
            "port": port,
            "app": _APP,
            "state": self.scratch / "state",
            "names": "joined",
            "classes": self.cache / "classes/streams",
            "jars": self.cache / "jars/streams",
            "log": self.scratch / "kafka-streams.log",
            "broker-pid": broker,
            "broker-data": self.scratch / "kafka/data",
            "pidfile": self.pidfile,
        }
        given = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        return parse(_output([sys.executable, str(self.folder / "py/bench_streams.py"), command, *given, *options]))

    @property
    def pidfile(self) -> Path:
        """Where the process id of the application is written."""
        return self.scratch / "kafka-streams.pid"


@dataclass(frozen=True)
class Peer:
    """Kafka Streams with all events folded, answering."""

    scripts: Scripts
    cluster: LocalCluster
    port: int
    ingest: Ingest

    @property
    def read(self) -> Read:
        """A profile with names."""
        pid = int(self.scripts.pidfile.read_text())
        return Read("profile, Kafka Streams", f"{LOCALHOST}:{self.port}", "/profile/{user}", {KAFKA_STREAMS: pid})

    def freshness(self) -> EventLatency:
        """By its own script, which ends the application. Raises `DevkitError`."""
        options = ("--runs", "1", "--seconds", str(_SECONDS), "--rate", str(RATE))
        lines = self.scripts.run("serve", self.cluster, self.port, *options)
        line = next(line for line in lines if line["what"] == "freshness")
        return EventLatency(line["p50_ms"], line["p99_ms"], {KAFKA_STREAMS: line["app_cpu_share"]}, None)

    def end(self) -> None:
        """Let it end, if it runs."""
        pidfile = self.scripts.pidfile
        with suppress(FileNotFoundError, psutil.NoSuchProcess):
            process = psutil.Process(int(pidfile.read_text()))
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def kafka_streams(scripts: Scripts, cluster: LocalCluster) -> Iterator[Peer]:
    """Build it, let it fold the topic, and end it after the block. Raises `DevkitError`."""
    scripts.build()
    port = free_port()
    (drained,) = scripts.run("drain", cluster, port, "--keep")
    peer = Peer(scripts, cluster, port, ingested(drained))
    try:
        yield peer
    finally:
        peer.end()


def ingested(drained: Mapping[str, Any]) -> Ingest:
    """CPU is the application's alone, from its first record on: without the start of its JVM and its broker's work."""
    return Ingest(
        whole=drained["events_per_app_cpu_s"],
        warm=drained["second_half_events_per_app_cpu_s"],
        per_second=drained["events_s"],
        warm_per_second=None,
    )


def parse(output: str) -> list[Mapping[str, Any]]:
    """The JSON objects, one a line, among what is printed."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def _output(argv: Sequence[str], **env: str) -> str:
    """What a script prints. When it fails or is interrupted, what it has started ends with it."""
    pipe = subprocess.PIPE
    script = subprocess.Popen(
        argv, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **env}, start_new_session=True
    )
    with ExitStack() as unless_done:
        unless_done.callback(_kill_group, script.pid)
        output, errors = script.communicate()
        if script.returncode:
            lines = (output + errors).strip().splitlines()[-10:]
            msg = "\n".join([f"{' '.join(argv[:3])} failed; its last lines:", *lines])
            raise DevkitError(msg)
        unless_done.pop_all()
    return output


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
