"""The store on the servers of a deployment: a cluster, and a primary that Sentinels watch."""

import asyncio
import itertools
import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from devkit.servers.child_process import LOCALHOST
from streamstate.cli.status import readable
from streamstate.errors import Fenced, Misconfigured
from streamstate.processing.decode import RawRecord
from streamstate.state.deletion import StateDeleter
from streamstate.state.operations import Between, Fields, Insert, Merge, Operation, Put, Read, Value
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.redis_reader import RedisReader, open_commands
from streamstate.state.redis_reads import tag
from streamstate.state.store import Commit, OffsetAdvance, Snapshot
from streamstate.testing import Driver
from tests.faults.harm import Proxy
from tests.laws.protocol import KEYS, TALLY
from tests.redis_servers import Migration, cluster_url, say, three_nodes, watched
from tests.waiting import PATIENCE_S, now_s, pausing, until

PARTITIONS = range(8)


@pytest.fixture
def cluster(nodes: list[int]) -> list[int]:
    """The ports of the nodes, which are empty."""
    for port in nodes:
        redis.Redis(port=port).flushall()
    return nodes


def operations(p: int) -> list[Operation]:
    return [Put("k", str(p)), Merge("f", {"n": p})]


def use(store: RedisStore) -> None:
    """A round of all verbs over all partitions, each verb in one call."""
    claims = {p: store.claim(p, "a:1", {"topic": 5}) for p in PARTITIONS}
    store.commit(*[Commit(claims[p], [OffsetAdvance("topic", None, 3)], operations(p)) for p in PARTITIONS])
    snapshots = store.read({p: [Value("k"), Fields("f")] for p in PARTITIONS})
    assert {p: snapshot.values for p, snapshot in snapshots.items()} == {p: [str(p), {"n": p}] for p in PARTITIONS}
    assert {snapshot.positions["topic"] for snapshot in snapshots.values()} == {3}


def test_a_cluster_of_three_nodes_shares_the_partitions(cluster: list[int]) -> None:
    store = RedisStore(connect(cluster_url(cluster), 5.0), "app")
    use(store)
    assert len({store.claim(p, "a:1", {}).server for p in PARTITIONS}) == 3
    assert sum(redis.Redis(port=port).dbsize() for port in cluster) == 3 * len(PARTITIONS)
    deletion = StateDeleter(connect(cluster_url(cluster), 5.0), "app")
    assert list(deletion.holdings()) == list(PARTITIONS)
    deletion.run(PARTITIONS)
    assert sum(redis.Redis(port=port).dbsize() for port in cluster) == 0


# redis-py does not close its client of the seed that told the new nodes.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_all_of_whose_nodes_have_moved_is_found_again(tmp_path: Path) -> None:
    """The configured name leads to the new nodes; the known nodes are gone."""
    reads: dict[int, list[Read]] = {p: [Value("k")] for p in PARTITIONS}
    with Proxy(0) as seed, ThreadPoolExecutor(1) as executor:
        url = f"redis+cluster://{LOCALHOST}:1,{LOCALHOST}:{seed.port}"
        with three_nodes(tmp_path / "old") as ports:
            seed.target = ports[0]
            store = RedisStore(connect(url, 5.0), "app")
            use(store)
            reading = executor.submit(asyncio.run, failed_reads(url, reads, dict.fromkeys(PARTITIONS)))
            until(reading.running)
        with three_nodes(tmp_path / "new") as ports:
            seed.target = ports[0]
            until(lambda: written(store, reads))
            assert reading.result(PATIENCE_S) > 0


def written(store: RedisStore, reads: Mapping[int, Sequence[Read]]) -> bool:
    """Whether the cluster is found, and empty."""
    with suppress(redis.RedisError):
        return all(not snapshot.positions for snapshot in store.read(reads).values())
    return False


async def failed_reads(url: str, reads: Mapping[int, Sequence[Read]], expected: Mapping[int, str | None]) -> int:
    """Read until the values are `expected`; returns how many reads failed before."""
    reader, failed = RedisReader(open_commands(url, 1.0), "app"), 0
    try:
        while True:
            try:
                snapshots = await reader.read(reads)
                if {p: snapshot.values[0] for p, snapshot in snapshots.items()} == expected:
                    return failed
            except redis.RedisError:
                failed += 1
            await pausing(0.05)
    finally:
        await reader.close()


@pytest.mark.parametrize("moved", ["{app:0}", "{app:0}:f", "{app:0}:i:k"])
def test_a_partition_half_of_which_has_moved_is_neither_read_nor_written(cluster: list[int], moved: str) -> None:
    """On either node some keys are missing, which must not be taken for keys that were never written."""
    url = cluster_url(cluster)
    store = RedisStore(connect(url, 5.0), "app")
    use(store)
    reads: dict[int, list[Read]] = {0: [Value("k"), Fields("f"), Between("i:k", 0)]}
    claim = store.claim(0, "b:1", {"topic": 5})
    store.commit(Commit(claim, [OffsetAdvance("topic", 3, 4)], [Insert("i", "k", {"x": 1})]))
    commit = Commit(claim, [OffsetAdvance("topic", 4, 5)], [Merge("f", {"n": 1}), Put("k", "new")])
    migration = Migration.start(cluster, tag("app", 0))
    migration.move(moved)
    for attempt in (
        lambda: store.read(reads),
        lambda: read_once(url, reads),
        lambda: store.claim(0, "b:1", {"topic": 5}),
        lambda: store.commit(commit),
    ):
        with pytest.raises(redis.RedisError):
            attempt()
    snapshots, [fault] = readable(store, "app", PARTITIONS)
    assert set(snapshots) == {*PARTITIONS} - {0}
    assert "the slot of {app:0} is between two nodes" in fault
    migration.move_rest()
    assert store.read(reads)[0].values == read_once(url, reads)[0].values == ["0", {"n": 0}, [("x", 1)]]
    claim = store.claim(0, "b:1", {"topic": 5})
    assert claim.positions == {"topic": 4}
    store.commit(Commit(claim, commit.steps, commit.operations))
    assert store.read(reads)[0].values == ["new", {"n": 1}, [("x", 1)]]


def read_once(url: str, reads: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
    """As an API reads."""

    async def read() -> Mapping[int, Snapshot]:
        reader = RedisReader(open_commands(url, 5.0), "app")
        try:
            return await reader.read(reads)
        finally:
            await reader.close()

    return asyncio.run(read())


def numbers() -> Iterator[RawRecord]:
    """Endless records for the app `TALLY`."""
    for offset in itertools.count():
        yield offset, offset, KEYS[offset % 3].encode(), str(offset % 7).encode()


def write_until(stop: threading.Event, store: RedisStore) -> dict[int, int]:
    """Feed every partition; begin again from the store after a failure. Returns the next offsets.

    Raises the last failure when a partition cannot be fed for as long as `PATIENCE_S` after the end.
    """
    app = replace(TALLY.app, name="app")
    drivers: dict[int, Driver] = {}
    reached = dict.fromkeys(PARTITIONS, 0)
    end = math.inf
    while not stop.is_set() or len(drivers) < len(PARTITIONS):
        end = min(end, now_s() + PATIENCE_S) if stop.is_set() else end
        for p in PARTITIONS:
            try:
                if p not in drivers:
                    drivers[p] = Driver(app, store, len(PARTITIONS), {p})
                    reached[p] = store.read({p: ()})[p].positions.get("numbers", 0)
                drivers[p].feed(p, {"numbers": list(itertools.islice(numbers(), reached[p], reached[p] + 2))})
                reached[p] += 2
            except (redis.RedisError, Fenced):
                drivers.pop(p, None)
                if now_s() > end:
                    raise
    return reached


async def read_until(stop: threading.Event, url: str, answered: Counter[int]) -> None:
    """Read all partitions at the same time, hold each answer against a recount, and count the answers of each."""
    reader = RedisReader(open_commands(url, 5.0), "app")

    async def read(p: int) -> None:
        while not stop.is_set():
            with suppress(redis.RedisError):
                assert_recount((await reader.read({p: TALLY.reads}))[p])
                answered[p] += 1
            await pausing(0.02)

    try:
        await asyncio.gather(*map(read, PARTITIONS))
    finally:
        await reader.close()


def assert_recount(snapshot: Snapshot) -> None:
    records = itertools.islice(numbers(), snapshot.positions.get("numbers", 0))
    assert snapshot.values == TALLY.recount([("numbers", record) for record in records])


def positions(store: RedisStore) -> dict[int, int]:
    return {
        p: snapshot.positions.get("numbers", 0) for p, snapshot in store.read(dict.fromkeys(PARTITIONS, ())).items()
    }


def test_a_primary_that_fails_is_replaced_under_load(tmp_path: Path) -> None:
    """Sentinels make the replica the primary, which may lack the last commits: they are made again, none twice."""
    with watched(tmp_path) as servers, ThreadPoolExecutor() as pool:
        store, stop = RedisStore(connect(servers.url, 5.0), "app"), threading.Event()
        answered = Counter[int]()
        promoted = RedisStore(connect(f"redis://{LOCALHOST}:{servers.replica_port}", 5.0), "app")
        writing = pool.submit(write_until, stop, store)
        try:
            until(lambda: min(positions(promoted).values()) > 0)
            reading = pool.submit(asyncio.run, read_until(stop, servers.url, answered))
            until(lambda: set(answered) == set(PARTITIONS))
            assert "role:slave" in say(servers.replica_port, "INFO replication")
            with pytest.raises(Misconfigured, match="name its primary"):
                promoted.claim(0, "a:1", {})
            servers.primary.kill()
            until(servers.promoted)
            before, answered_before = positions(promoted), answered.copy()
            until(lambda: all(at > before[p] for p, at in positions(promoted).items()))
            until(lambda: all(answered[p] > answered_before[p] for p in PARTITIONS))
        finally:
            stop.set()
        reached = writing.result()
        reading.result()
        for p, snapshot in store.read(dict.fromkeys(PARTITIONS, TALLY.reads)).items():
            assert snapshot.positions == {"numbers": reached[p]}
            assert_recount(snapshot)
