"""A task makes few commits where nobody reads yet, and short ones where somebody does."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from devkit.local_cluster import LocalCluster
from devkit.redis_server import Redis
from streamstate.kafka.admin import Topics
from streamstate.kafka.security import OPEN
from streamstate.processing.limits import TimestampLimit
from streamstate.releases.pointer import Pointer
from streamstate.releases.record import first, staged
from streamstate.settings import StreamSettings
from streamstate.spark.task import READY_CHANGES, FoldTask
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.redis_reads import tag
from streamstate.state.store import Origin
from tests.integration.releases import Releases
from tests.laws.test_commit_size import APP

TOPIC = "numbers"
RECORDS, MEMBERS = 2_000, 10


@pytest.fixture(scope="module")
def origins(releases: Releases) -> dict[str, Origin]:
    """Of an existing topic: a task asks for the topic before its commit."""
    releases.create(TOPIC, partitions=1)
    return Topics(releases.cluster.kafka.bootstrap).describe([TOPIC])


@pytest.mark.parametrize(("built", "beside"), [(True, False), (True, True), (False, False)])
def test_a_task_commits_what_is_built_in_large_steps_and_what_is_read_in_small_ones(
    servers: LocalCluster, origins: dict[str, Origin], redis_server: Redis, built: bool, beside: bool
) -> None:
    """Readers of a live release read the same Redis as the build beside it."""
    app = replace(APP, name=f"sizes-{built}-{beside}", release_of="sizes" if beside else "")
    url = f"redis://127.0.0.1:{redis_server.port}/0"
    columns: dict[str, Any] = {
        "topic": [TOPIC] * RECORDS,
        "partition": pa.array([0] * RECORDS, pa.int32()),
        "offset": range(RECORDS),
        "timestamp": range(RECORDS),
        "key": [b"a"] * RECORDS,
        "value": [b"%d" % MEMBERS] * RECORDS,
    }
    with connect(url, 10.0) as client:
        if beside:
            Pointer(client, "sizes").replace(None, staged(first("sizes"), app.name))
        store = RedisStore(client, app.name)
        claims = {0: store.claim(0, "a:1", {TOPIC: RECORDS} if built else {})}
        kafka = servers.kafka.bootstrap
        limits = {"batch_records": RECORDS, "commit_records": RECORDS}
        settings = StreamSettings.model_validate({"kafka": kafka, "redis": url, **limits})
        task = FoldTask(app, claims, origins, TimestampLimit(), {}, OPEN, settings)
        list(task(iter([pa.RecordBatch.from_pydict(columns)])))
        made = int(client.hget(tag(app.name, 0), "ended") or 0)
        assert made == 2 if built and not beside else made >= RECORDS * MEMBERS / READY_CHANGES
        assert store.read({0: []})[0].positions == {TOPIC: RECORDS}
