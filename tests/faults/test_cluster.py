"""A Redis Cluster whose slots move while the state is written and read: a slot by a few keys, thousands at once."""

from collections.abc import Iterator

import pytest

from devkit.cluster.local_cluster import LocalCluster
from streamstate.state.redis_reads import tag
from tests.faults.conftest import Trying
from tests.faults.deployed import Deployed
from tests.redis_servers import Migration, cluster_url, reshard, three_nodes

PARTITIONS = 8
SLOTS = 3_000


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    with three_nodes(tmp_path_factory.mktemp("nodes")) as ports:
        yield ports


@pytest.fixture(scope="module")
def deployment(servers: LocalCluster, nodes: list[int]) -> Iterator[Deployed]:
    deployment = Deployed(servers, "cluster", PARTITIONS, cluster_url(nodes))
    try:
        deployment.play()
        deployment.start()
        yield deployment
    finally:
        deployment.close()


@pytest.mark.quick
def test_f28_slots_move(trying: Trying, deployment: Deployed, nodes: list[int]) -> None:
    with trying("F28", "slots of a three-node Redis Cluster move to the next node, 20 keys at a time") as run:
        with run.load(deployment):
            for _ in run.seeds():
                for partition in run.draw.sample(range(PARTITIONS), 2):
                    run.moment()
                    Migration.start(nodes, tag(deployment.name, partition)).move_rest(at_once=20)
                    run.recover(deployment)
        deployment.catch_up()
        run.recount(deployment)


def test_a_cluster_is_resharded(trying: Trying, deployment: Deployed, nodes: list[int]) -> None:
    with trying(
        "reshard", f"`redis-cli --cluster reshard` of {SLOTS:,} slots from one of three nodes to another"
    ) as run:
        with run.load(deployment):
            for _ in run.seeds():
                run.moment()
                source, target = run.draw.sample(range(len(nodes)), 2)
                reshard(nodes, source, target, SLOTS)
                run.recover(deployment)
        deployment.catch_up()
        run.recount(deployment)
