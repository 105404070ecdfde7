"""The whole demo with its few records a second."""

import itertools
from pathlib import Path

from devkit.bench import cpu
from devkit.child_process import free_port
from devkit.demo import CACHE, say, wait_folded
from devkit.feed import Feed
from devkit.local_cluster import LocalCluster, Plan

WARM_S, MEASURED_S = 45, 30


def measure(home: Path) -> cpu.Usage:
    """A demo of its own in `home`: Kafka, Redis, streams, APIs and gateway; this process feeds them."""
    cluster = LocalCluster(Plan(home, CACHE, free_port(), free_port(), free_port()), say)
    try:
        cluster.start()
        feed = Feed(cluster.kafka.bootstrap, home / "fed")
        feed.load(say)
        wait_folded(cluster)
        say(f"at rest for {WARM_S + MEASURED_S} s")
        live = feed.live()
        for _ in itertools.islice(live, WARM_S):
            pass
        meter = cpu.Meter({child.name: child.pid for child in cluster.children})
        for _ in itertools.islice(live, MEASURED_S):
            pass
        return meter.read()
    finally:
        cluster.stop()
