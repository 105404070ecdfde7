"""Kafka Streams and Twitter's GraphJet on the same events, by scripts from outside this project."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from devkit import DevkitError
from devkit.bench.ingest import Ingest
from devkit.bench.reads import Read, write_paths
from devkit.bench.recommendations import SECTION
from devkit.bench.report import BenchReport
from devkit.child_process import LOCALHOST, free_port
from devkit.demo import CACHE, say
from devkit.local_cluster import LocalCluster

KAFKA_STREAMS = "Kafka Streams"
PEERS_CACHE = (CACHE / "peers").absolute()
USERS = 60
_EDGES = re.compile(r"= (\d+)/cpu-s")
_WALKS = re.compile(r"cpu of the thread: mean [\d.]+, p50 ([\d.]+)")


@contextmanager
def kafka_streams(
    scripts: Path, cluster: LocalCluster, home: Path, users: Sequence[int]
) -> Iterator[tuple[Ingest, Read]]:
    """Build the application, fold the topic, and end the application after the block; `home` has the saved data.

    Yields the ingest, and the read of a profile with names. Raises `DevkitError` when a script fails.
    """
    say("Kafka Streams: folding the same events")
    output([str(scripts / "streams/build.sh")])
    port, broker, pidfile = free_port(), home / "broker.pid", home / "kafka-streams.pid"
    broker.write_text(str(cluster.kafka.pid))
    settings = {
        "data": home,
        "bootstrap": cluster.kafka.bootstrap,
        "port": port,
        "app": "bench",
        "state": home / "state",
        "names": "joined",
        "classes": PEERS_CACHE / "classes/streams",
        "jars": PEERS_CACHE / "jars/streams",
        "log": home / "kafka-streams.log",
        "broker-pid": broker,
        "broker-data": home / "kafka/data",
        "pidfile": pidfile,
    }
    given = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    try:
        printed = output([sys.executable, str(scripts / "py/bench_streams.py"), "drain", *given, "--keep"])
        paths, trees = write_paths(home, "/profile/{user}", users), {KAFKA_STREAMS: int(pidfile.read_text())}
        yield ingested(printed), Read(f"profile, {KAFKA_STREAMS}", f"{LOCALHOST}:{port}", paths, trees)
    finally:
        with suppress(FileNotFoundError, psutil.NoSuchProcess):
            process = psutil.Process(int(pidfile.read_text()))
            process.terminate()
            process.wait(30)


def ingested(printed: str) -> Ingest:
    """The ingest in the script's line of JSON.

    CPU is the application's alone, from its first record on: without the start of its JVM and its broker's work.
    """
    line: Mapping[str, Any] = next(json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    cpu = line["events_per_app_cpu_s"], line["second_half_events_per_app_cpu_s"]
    return Ingest(*cpu, per_second=f"{line['events_s']:,.0f}")


def graphjet(scripts: Path, source: Path, data: Path, request_ms: float, report: BenchReport) -> None:
    """Build GraphJet from `source` and run it on `edges.bin` of the folder `data` (minutes).

    request_ms: CPU of a list of this project. Raises `DevkitError` when the script fails.
    """
    say("the same with GraphJet")
    printed = output([str(scripts / "graphjet/run.sh"), str(source), str(data / "edges.bin"), f"--users={USERS}"])
    edges, theirs_ms = graphjet_figures(printed)
    report.sections[SECTION].update(
        {
            "GraphJet: edges taken in a CPU second": f"{edges:,.0f}",
            "GraphJet: a request, CPU p50": f"{theirs_ms:.0f} ms",
            "GraphJet's CPU a request over ours": f"{theirs_ms / request_ms:,.0f} x",
        }
    )


def graphjet_figures(printed: str) -> tuple[float, float]:
    """Edges taken in a CPU second, and median CPU milliseconds of a recommendation. Raises `DevkitError`."""
    edges, request = _EDGES.search(printed), _WALKS.search(printed)
    if edges is None or request is None:
        raise DevkitError(_failure("GraphJet's harness gave no figures", printed))
    return float(edges[1]), float(request[1])


def output(argv: Sequence[str]) -> str:
    """The output of a script. Raises `DevkitError` with the last lines when the script fails."""
    env = {**os.environ, "PEERS_CACHE": str(PEERS_CACHE / "jars")}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    if done.returncode:
        raise DevkitError(_failure(f"{' '.join(argv[:3])} failed", done.stdout + done.stderr))
    return done.stdout


def _failure(what: str, printed: str) -> str:
    return "\n".join([f"{what}; its last lines:", *printed.strip().splitlines()[-10:]])
