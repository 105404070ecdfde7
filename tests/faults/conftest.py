"""One fleet for the whole suite: two instances of metrics, names, recommendations, the gateway, and users to read."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from devkit import feed, sample_events
from devkit.child_process import free_port
from devkit.demo import CACHE
from devkit.local_cluster import LocalCluster, Plan, answers, get
from streamstate.cli.services import deployments
from streamstate.kafka.producer import producer
from streamstate.verify.check import Check
from tests.faults import fault_report
from tests.faults.fleet import OTHERS, Fleet
from tests.faults.load import READS_PER_S, Reading, Writing, without_names
from tests.integration.driving import eventually

SEED = int(os.environ.get("SEED", "1"))
EVENTS, USERS = 20_000, 300
PAUSE_S = 2.0
KNOWN = 100
"""So many users are read."""


@dataclass
class Run:
    """One fault under load."""

    fleet: Fleet
    draw: random.Random
    times: int = 0
    recovered_s: list[float] = field(default_factory=list)

    def moment(self, most_s: float = PAUSE_S) -> None:
        """Wait for a random moment."""
        time.sleep(self.draw.uniform(0.2, most_s))

    def recover(self) -> None:
        """A fault is over: wait until the states have caught up."""
        self.times += 1
        self.recovered_s.append(self.fleet.catch_up())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The faults of Redis first: what it loads after a kill grows with every event."""
    items.sort(key=lambda item: item.path.name != "test_redis.py")


UnderLoad = Callable[..., AbstractContextManager[Run]]


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    home = tmp_path_factory.mktemp("faults")
    ports = (free_port(), free_port(), free_port())
    cluster = LocalCluster(Plan(home, Path.cwd() / CACHE, *ports, {"metrics": 3}), say=print)
    fleet = Fleet(cluster)
    try:
        cluster.start_servers()
        catalogue = sample_events.Catalogue.make(SEED, artists=60)
        out = producer(cluster.kafka.bootstrap)
        feed.send_names(out, sample_events.names(catalogue))
        clock = sample_events.backlog(EVENTS, 86_400_000, lambda: 1_750_000_000_000)
        feed.send_events(out, islice(sample_events.events(catalogue, SEED, USERS, clock), EVENTS))
        fleet.streams[OTHERS].start()
        for name, api in fleet.apis.items():
            if not name.startswith("metrics"):
                api.start()
        cluster.gateway.start()
        fleet.start("metrics-0", "metrics-1")
        cluster.gateway.wait_until(lambda: answers(f"{cluster.url}/readyz"), timeout=60)
        eventually(lambda: fleet.owned_by("metrics-0", "metrics-1"), "both instances to own partitions", 60)
        fleet.catch_up()
        yield fleet
    finally:
        fleet.stop()
        cluster.stop()


@pytest.fixture(scope="session")
def known(fleet: Fleet) -> dict[int, Any]:
    """The profiles of users who play no more."""
    return {user: without_names(get(f"{fleet.cluster.url}/v1/users/{user}/metrics")) for user in range(1, KNOWN + 1)}


@pytest.fixture(scope="session")
def rows() -> Iterator[list[fault_report.Row]]:
    rows: list[fault_report.Row] = []
    yield rows
    print(f"\n{fault_report.keep(rows)}")


@pytest.fixture
def under_load(
    fleet: Fleet, known: dict[int, Any], rows: list[fault_report.Row], request: pytest.FixtureRequest
) -> UnderLoad:
    draw = random.Random(f"{SEED} {request.node.name}")

    @contextmanager
    def under_load(fault: str, what: str, reads_per_s: float = READS_PER_S) -> Iterator[Run]:
        """Run the body's faults under load, then recount; fails when a key differs or an answer was wrong."""
        run, reading = Run(fleet, draw), Reading(fleet.cluster.url, known, reads_per_s)
        with Writing(producer(fleet.cluster.kafka.bootstrap), draw), reading:
            yield run
        fleet.catch_up()
        settings = fleet.cluster.settings
        reports = [Check(of.recounted, settings).run() for of in deployments(settings, module="recount")]
        differences = [str(difference) for report in reports for difference in report.differences]
        reads, recovered_s = reading.reads, max(run.recovered_s, default=0.0)
        counts = (run.times, len(differences), reads.count, len(reads.failed), len(reads.bad))
        rows.append(fault_report.Row(fault, what, *counts, reads.longest_s, recovered_s))
        print(rows[-1], reads.kinds)
        assert differences[:5] == []
        assert reads.bad[:5] == []

    return under_load


@pytest.fixture
def row(rows: list[fault_report.Row]) -> Callable[[], fault_report.Row]:
    """What the fault that was just tried did."""
    return lambda: rows[-1]
