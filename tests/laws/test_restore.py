"""A restore beside running streams and reads: every answer is a recount of the topics, or refused."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from devkit.servers.child_process import LOCALHOST, free_port
from streamstate.errors import Declined, Fenced, IncompleteCommit
from streamstate.history.backup.loaded import SavedPartitions, loaded
from streamstate.history.backup.restorer import Restorer
from streamstate.history.backup.snapshots import take
from streamstate.state.deletion import StateDeleter
from streamstate.state.operations import Put
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import NO_LOGIN, Client, connect
from streamstate.state.store import Commit, OffsetAdvance
from streamstate.testing import Driver
from tests.laws.protocol import TALLY
from tests.laws.test_redis_servers import assert_recount, numbers
from tests.redis_servers import AT_ONCE, Migration, answers, cluster_url, node, watched
from tests.waiting import PATIENCE_S, pause, until, until_equal

APP = "app"
PARTITIONS = range(4)
TAKEN = datetime(2025, 5, 6, tzinfo=UTC)


class Killed(Exception):
    pass


class Mortal(redis.Redis):
    """Dies before its command number `left`."""

    left: Iterator[int] = iter(())

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if next(self.left, None) is None:
            raise Killed
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "server") as url:
        yield url


@contextmanager
def running(home: Path) -> Iterator[str]:
    port = free_port()
    url = f"redis://{LOCALHOST}:{port}/0"
    with node(home, port, *AT_ONCE, "--port", str(port)) as child:
        child.wait_until(lambda: answers(url), PATIENCE_S)
        yield url


@pytest.fixture
def cluster(nodes: list[int]) -> str:
    for port in nodes:
        redis.Redis(port=port).flushall()
    return cluster_url(nodes)


def drivers(store: RedisStore) -> dict[int, Driver]:
    return {p: Driver(replace(TALLY.app, name=APP), store, len(PARTITIONS), {p}) for p in PARTITIONS}


def fold(store: RedisStore, driver: Driver, partition: int, count: int = 2) -> None:
    start = store.read({partition: ()})[partition].positions.get("numbers", 0)
    driver.feed(partition, {"numbers": list(itertools.islice(numbers(), start, start + count))})


@contextmanager
def saved(url: str, folder: Path) -> Iterator[SavedPartitions]:
    """The partitions of a snapshot of the Redis at `url`."""
    folder.mkdir()
    files = take(connect(url, 5.0), NO_LOGIN, folder, tls=False)
    with loaded(files) as states:
        yield states[APP]


def positions(store: RedisStore) -> dict[int, int]:
    return {p: each.positions.get("numbers", 0) for p, each in store.read(dict.fromkeys(PARTITIONS, ())).items()}


def stream(store: RedisStore, partition: int, stop: threading.Event) -> int:
    """Fold without end, as a stream: after a refusal, from the state again; returns the number of refusals."""
    refused = 0
    while not stop.is_set():
        try:
            driver = Driver(replace(TALLY.app, name=APP), store, len(PARTITIONS), {partition})
            while not stop.is_set():
                fold(store, driver, partition)
        except (Fenced, IncompleteCommit):
            refused += 1
            pause(0.01)
    return refused


def reader(store: RedisStore, stop: threading.Event, counts: Counter[str]) -> None:
    """Compare all partitions with a recount again and again."""
    while not stop.is_set():
        for p in PARTITIONS:
            try:
                snapshot = store.read({p: TALLY.reads})[p]
            except IncompleteCommit:
                counts["refused"] += 1
            else:
                assert_recount(snapshot)
                counts["answered"] += 1


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("server", "server"),
        ("server", "another"),
        ("server", "cluster"),
        ("cluster", "another"),
        ("cluster", "cluster"),
    ],
)
def test_streams_and_reads_go_on_while_a_state_is_restored(
    request: pytest.FixtureRequest, tmp_path: Path, source: str, target: str
) -> None:
    stop, counts = threading.Event(), Counter[str]()
    with running(tmp_path / "another") as another, ThreadPoolExecutor() as pool:
        source_url = request.getfixturevalue(source)
        url = another if target == "another" else request.getfixturevalue(target)
        origin, store = (RedisStore(connect(each, 10.0), APP) for each in (source_url, url))
        for p, driver in drivers(origin).items():
            fold(origin, driver, p, 20 + p)
        streams = [pool.submit(stream, store, p, stop) for p in PARTITIONS]
        reading = pool.submit(reader, store, stop, counts)
        try:
            until(lambda: counts["answered"] > 50 or reading.done())
            with saved(source_url, tmp_path / "saved") as partitions:
                until(lambda: min(positions(store).values()) > 40)
                answered = counts["answered"]
                Restorer(connect(url, 10.0), APP, partitions, TAKEN).run(lambda: pause(0.3))
                until(lambda: counts["answered"] > answered + 200 or reading.done())
        finally:
            stop.set()
        reading.result()
        assert min(each.result() for each in streams) > 0
        assert counts["refused"] > 0
        for snapshot in store.read(dict.fromkeys(PARTITIONS, TALLY.reads)).values():
            assert_recount(snapshot)
            assert snapshot.backup == TAKEN.timestamp() * 1_000


def test_a_restore_killed_at_any_command_is_refused_until_it_is_run_again(server: str, tmp_path: Path) -> None:
    client: Client = connect(server, 5.0)
    store = RedisStore(client, APP)
    for p, driver in drivers(store).items():
        fold(store, driver, p, 7 + p)
    before = contents(client)
    with saved(server, tmp_path / "saved") as partitions:
        for steps in itertools.count():
            StateDeleter(client, APP).run(PARTITIONS)
            held = drivers(store)
            for p, driver in held.items():
                fold(store, driver, p, 20)
            mortal: Any = Mortal.from_url(server)
            mortal.left = iter(range(steps))
            with suppress(Killed):
                Restorer(mortal, APP, partitions, None).run(lambda: None)
                break
            for p, driver in held.items():
                assert_whole_or_refused(store, driver, p)
            Restorer(client, APP, partitions, None).run(lambda: None)
            assert contents(client) == before
            assert_fenced(store, held)
    assert steps > 4 * len(PARTITIONS)
    assert contents(client) == before


def contents(client: Any) -> dict[bytes, Any]:
    """All keys, without the fields of the last claim and replacement."""
    found = {key: client.dump(key) for key in client.scan_iter()}
    hashes = {key: client.hgetall(key) for key in found if key.endswith(b"}")}
    for fields in hashes.values():
        assert fields.pop(b"begun") == fields.pop(b"ended")
        del fields[b"epoch"]
    return found | hashes


def assert_whole_or_refused(store: RedisStore, driver: Driver, partition: int) -> None:
    with suppress(IncompleteCommit, Fenced):
        assert_recount(store.read({partition: TALLY.reads})[partition])
        fold(store, driver, partition)
        assert_recount(store.read({partition: TALLY.reads})[partition])


def assert_fenced(store: RedisStore, held: dict[int, Driver]) -> None:
    for p, driver in held.items():
        position = store.read({p: ()})[p].positions["numbers"]
        with pytest.raises(Fenced):
            store.commit(
                Commit(driver.claims[p], [OffsetAdvance("numbers", position, position + 1)], [Put("last", "x")])
            )


def test_of_two_restores_at_once_the_earlier_one_stops(server: str, tmp_path: Path) -> None:
    client = connect(server, 5.0)
    store = RedisStore(client, APP)
    for p, driver in drivers(store).items():
        fold(store, driver, p, 7)
    with saved(server, tmp_path / "saved") as partitions:
        later = Restorer(client, APP, partitions, None)
        earlier = Restorer(client, APP, partitions, None)
        with pytest.raises(Declined, match=r"another reset or restore of \{app:.\} has begun: wait for its end"):
            earlier.run(lambda: later.run(lambda: None))
    assert set(positions(store).values()) == {7}
    for snapshot in store.read(dict.fromkeys(PARTITIONS, TALLY.reads)).values():
        assert_recount(snapshot)


def test_one_partition_is_restored_and_the_others_stay(server: str, tmp_path: Path) -> None:
    store = RedisStore(connect(server, 5.0), APP)
    held = drivers(store)
    for p, driver in held.items():
        fold(store, driver, p, 7)
    with saved(server, tmp_path / "saved") as partitions:
        for p, driver in held.items():
            fold(store, driver, p, 7)
        Restorer(connect(server, 5.0), APP, {2: partitions[2]}, None).run(lambda: None)
    assert positions(store) == {0: 14, 1: 14, 2: 7, 3: 14}
    # The claim is of before the backup, which has its epoch.
    assert_fenced(store, {2: held[2]})


def test_a_full_redis_refuses_the_partitions_until_it_has_memory(server: str, tmp_path: Path) -> None:
    client: Any = connect(server, 5.0)
    store = RedisStore(client, APP)
    for p, driver in drivers(store).items():
        fold(store, driver, p, 7)
    with saved(server, tmp_path / "saved") as partitions:
        restorer = Restorer(client, APP, partitions, None)
        with pytest.raises(Declined, match=r"Redis is full .* run the restore again; until then the partitions of app"):
            restorer.run(lambda: client.config_set("maxmemory", 1))
        with pytest.raises(IncompleteCommit, match="run the restore again"):
            store.read({0: ()})
        client.config_set("maxmemory", 0)
        restorer.run(lambda: None)
    assert set(positions(store).values()) == {7}


def test_values_are_tried_before_anything_is_deleted(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(connect(server, 5.0), APP)
    for p, driver in drivers(store).items():
        fold(store, driver, p, 7)
    with saved(server, tmp_path / "saved") as partitions:
        Restorer(connect(server, 5.0), APP, partitions, None).require_readable()
        # As of a later format of Redis: the version is before the checksum.
        payload = connect(server, 5.0).dump("{app:0}") or b""
        monkeypatch.setattr(redis.Redis, "dump", lambda *_: payload[:-10] + b"\xff\xff" + payload[-8:])
        with pytest.raises(Declined, match="Redis is older than the redis-server on the PATH"):
            Restorer(connect(server, 5.0), APP, partitions, None).require_readable()
    until_equal(lambda: redis.Redis.from_url(server).keys("*trial"), [])


def test_slots_on_their_way_are_not_backed_up(nodes: list[int], cluster: str, tmp_path: Path) -> None:
    store = RedisStore(connect(cluster, 5.0), APP)
    fold(store, drivers(store)[0], 0)
    migration = Migration.start(nodes, "{app:0}")
    with pytest.raises(Declined, match="slots move between nodes"):
        take(connect(cluster, 5.0), NO_LOGIN, tmp_path, tls=False)
    migration.move_rest()
    files: Sequence[Path] = take(connect(cluster, 5.0), NO_LOGIN, tmp_path, tls=False)
    assert len(files) == len(nodes)


@pytest.mark.parametrize("spoil", [lambda content: content[:-20], lambda _: b"REDIS0099"], ids=["cut", "of the future"])
def test_a_spoilt_file_is_not_restored(server: str, tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    fold(RedisStore(connect(server, 5.0), APP), drivers(RedisStore(connect(server, 5.0), APP))[0], 0)
    [file] = take(connect(server, 5.0), NO_LOGIN, tmp_path, tls=False)
    with pytest.raises(Declined, match="saved twice"), loaded([file, file]):
        pass
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(Declined, match=r"redis-server cannot load .*\.rdb \("), loaded([file]):
        pass


def test_the_primary_of_sentinels_is_backed_up(tmp_path: Path) -> None:
    with watched(tmp_path / "servers") as servers:
        store = RedisStore(connect(servers.url, 5.0), APP)
        for p, driver in drivers(store).items():
            fold(store, driver, p, 7)
        with saved(servers.url, tmp_path / "saved") as partitions:
            Restorer(connect(servers.url, 5.0), APP, partitions, None).run(lambda: None)
        assert set(positions(store).values()) == {7}
