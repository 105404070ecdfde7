"""One fleet for a whole shard: two instances of metrics, the other services, the gateway, and users to read."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice

import pytest

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.events import feed, sample_events
from streamstate.kafka.producer import producer
from tests.faults import fault_report
from tests.faults.fleet import OTHERS, Fleet
from tests.faults.load import READS_PER_S
from tests.faults.trial import ALL_SEEDS, SEEDS, Trial
from tests.integration.driving import local_cluster
from tests.waiting import PATIENCE_S, until

SEED = 1
EVENTS, USERS = 20_000, 300

Trying = Callable[[str, str], AbstractContextManager[Trial]]
UnderLoad = Callable[..., AbstractContextManager[Trial]]


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Kafka and Redis, without services."""
    home = tmp_path_factory.mktemp("faults")
    with local_cluster(home, instances={"metrics": 3}).running(services=False) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def fleet(servers: LocalCluster) -> Iterator[Fleet]:
    fleet = Fleet(servers)
    try:
        catalogue = sample_events.Catalogue.make(SEED, artists=60)
        out = producer(servers.kafka.bootstrap)
        feed.send_names(out, sample_events.names(catalogue))
        clock = sample_events.backlog(EVENTS, 86_400_000, lambda: 1_750_000_000_000)
        feed.send_events(out, islice(sample_events.events(catalogue, SEED, USERS, clock), EVENTS))
        fleet.streams[OTHERS].start()
        for name, api in fleet.apis.items():
            if not name.startswith("metrics"):
                api.start()
        servers.gateway.start()
        fleet.start("metrics-0", "metrics-1")
        servers.gateway.wait_until(lambda: answers(f"{servers.url}/readyz"), PATIENCE_S)
        until(lambda: fleet.owned_by("metrics-0", "metrics-1"), "both instances to own partitions")
        fleet.catch_up()
        yield fleet
    finally:
        fleet.stop()


@pytest.fixture(scope="package")
def rows() -> Iterator[list[fault_report.Row]]:
    """The trials of this run; a run with all seeds is kept in the report."""
    rows: list[fault_report.Row] = []
    yield rows
    if SEEDS == ALL_SEEDS:
        fault_report.keep(rows)
    print(f"\n{fault_report.text(rows)}")


@pytest.fixture
def trying(rows: list[fault_report.Row]) -> Trying:
    @contextmanager
    def trying(fault: str, what: str) -> Iterator[Trial]:
        """A trial that fails when a state differed or an answer was wrong."""
        trial = Trial(fault, what)
        yield trial
        rows.append(trial.row())
        print(rows[-1], trial.reads.kinds)
        assert trial.errors[:5] == []

    return trying


@pytest.fixture
def under_load(trying: Trying, fleet: Fleet) -> UnderLoad:
    @contextmanager
    def under_load(fault: str, what: str, reads_per_s: float = READS_PER_S) -> Iterator[Trial]:
        """A trial of the fleet: under load while the block runs, recounted after it."""
        with trying(fault, what) as trial:
            with trial.load(fleet, reads_per_s):
                yield trial
            fleet.catch_up()
            trial.recount(fleet)

    return under_load
