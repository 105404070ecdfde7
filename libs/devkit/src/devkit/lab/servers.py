"""A cluster of its own for a measure."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.cluster.plan import Plan
from devkit.demo import CACHE, say
from devkit.servers.child_process import Child
from services.metrics.model import APP

WARM_S = 60
"""A stream's JVM compiles its code within about a minute."""

CAUGHT_UP_S = 1_200


@contextmanager
def servers(home: Path, **plan: Any) -> Iterator[LocalCluster]:
    """Kafka and Redis with data in `home`, and further settings of `Plan`; stops all processes at the end."""
    with LocalCluster(Plan(home, CACHE, **plan), say).running(services=False) as cluster:
        yield cluster


def settle(cluster: LocalCluster) -> None:
    """Wait until the states have reached the ends of their topics and all APIs are ready."""
    states = cluster.states()
    cluster.streams.wait_until(lambda: states.caught_up() and cluster.ready(), CAUGHT_UP_S)


@contextmanager
def folded(cluster: LocalCluster) -> Iterator[Child]:
    """All services with their topics folded; yields the stream of metrics, running alone as in a deployment."""
    cluster.start_services()
    say("folding the events in all services")
    settle(cluster)
    cluster.streams.stop()
    with streaming(cluster, APP.name) as streams:
        yield streams


@contextmanager
def streaming(cluster: LocalCluster, *services: str) -> Iterator[Child]:
    """The streams of `services` in one process, until their states have reached the ends of their topics."""
    with cluster.of_services(services) as streams:
        streams.wait_until(lambda: answers(f"http://{cluster.status}/readyz"), CAUGHT_UP_S)
        yield streams
        streams.wait_until(cluster.states(*services).caught_up, CAUGHT_UP_S)


def restart(cluster: LocalCluster, name: str, **settings: str) -> None:
    """Start the first API of the service `name` again, with further `settings`, until it is ready."""
    place = next(place for place, api in enumerate(cluster.apis) if api.name == f"{name}-0")
    cluster.apis[place].stop()
    address = cluster.addresses[name][0]
    cluster.apis[place] = api = cluster.instance(name, 0, address, **settings)
    api.start()
    api.wait_until(lambda: answers(f"http://{address}/readyz"), CAUGHT_UP_S)
