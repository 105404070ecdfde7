"""One cluster for the whole ring: real Kafka, Redis, Spark, all services, some of them in several instances.

And servers without services, for deployments that come and go. All end with the last test of this folder: an idle ring
takes CPU time from other tests.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import CACHE
from devkit.registry import SERVICES, app
from devkit.servers.child_process import free_port
from devkit.servers.schema_registry import SchemaRegistry
from streamstate.kafka.producer import producer
from streamstate.state import redis_rights as redis
from tests.collector import Collector, collecting
from tests.deployment import Deployment
from tests.integration.driving import Driving, local_cluster
from tests.integration.fragile.model import FIXED
from tests.integration.releases import Releases
from tests.stream_host import StreamHost

EVENTS = 20_000
SEED = 7
USERS = 300
# Small, so that every backlog takes several micro-batches.
BATCH_RECORDS = 2_000
INSTANCES = {"metrics": 2, "recommendations": 2, "clicks": 2, "topics": 3}
PASSWORD = "of-the-ring"


def users() -> str:
    """Those of Redis: the tests, and streams and APIs of all services, with the rights that are listed."""
    keys = dict.fromkeys(key for service in SERVICES for key in redis.keys(app(service).name))
    return f"user default on nopass ~* &* +@all\nuser {redis.rule('ring', keys, redis.of_service())} on >{PASSWORD}\n"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("cluster")
    (home / "password").write_text(PASSWORD)
    (home / "redis").mkdir()
    (home / "redis" / "users.acl").write_text(users())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMSTATE_BATCH_RECORDS", str(BATCH_RECORDS))
        patch.setenv("STREAMSTATE_REDIS_USERNAME", "ring")
        patch.setenv("STREAMSTATE_REDIS_PASSWORD", str(home / "password"))
        cluster = local_cluster(home, instances=INSTANCES, services=SERVICES)
    with cluster.running():
        yield cluster


@pytest.fixture(scope="package")
def driving(cluster: LocalCluster) -> Driving:
    """The cluster, fed with seeded names and events, some of them broken, all of them folded."""
    return Driving.fed(cluster, SEED, EVENTS, USERS, lambda: 1_750_000_000_000)


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Kafka and Redis without services, for what is not done to the ring."""
    with local_cluster(tmp_path_factory.mktemp("servers")).running(services=False) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(tmp_path_factory.mktemp("registry"), free_port(), Path.cwd() / CACHE / "registry")
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="package")
def host(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[StreamHost]:
    """Runs streams of any cluster, from the first one on; their spans go to the collector."""
    home = tmp_path_factory.mktemp("host")
    with pytest.MonkeyPatch.context() as patch:
        # Of the workers of all streams, and of the tests.
        patch.setenv(FIXED, str(home / "fixed"))
        with pytest.MonkeyPatch.context() as of_host:
            for name, text in collector.environment.items():
                of_host.setenv(name, text)
            host = StreamHost(home, Path.cwd() / CACHE)
        yield host
        host.stop()


@pytest.fixture(scope="package")
def releases(servers: LocalCluster, host: StreamHost) -> Releases:
    return Releases(servers, partial(host.deployment, servers), producer(servers.kafka.bootstrap))


@pytest.fixture
def deployment(releases: Releases, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """A service over a topic with a single partition, named after the test."""
    deployment = Deployment(releases.cluster, request.node.name.replace("_", "-"), host=releases.make)
    deployment.create()
    yield deployment
    deployment.close()
