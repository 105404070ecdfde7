"""What only the store in Redis has: keys to be read by a person, scripts, and a server that really restarts."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.servers.child_process import free_port
from devkit.servers.redis import Redis
from streamstate.errors import Fenced, IncompleteCommit
from streamstate.state.operations import (
    Append,
    Between,
    ExpireBefore,
    Fields,
    IncrementScores,
    Insert,
    Merge,
    Operation,
    Put,
    Value,
)
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client, connect
from streamstate.state.store import Commit, OffsetAdvance, Origin
from tests.waiting import until


def test_the_keys_are_those_that_are_documented(redis_client: Client) -> None:
    store = RedisStore(redis_client, "documented")
    origins = {"topic": Origin("id", 8)}
    claim = store.claim(7, "a:1", {"topic": 5}, origins, {"topic": 2}, {"topic": "fold"})
    step: list[Operation] = [
        Put("artists:3", "Ä"),
        Merge("user:1", add={"count": 2}),
        IncrementScores("user:1:artists", {"a3": 2}),
        Append("plays", 4, "text", keep=10),
        Insert("range", "7", {"text": 5}),
    ]
    store.commit(Commit(claim, [OffsetAdvance("topic", None, 4)], step, {"dead_letters": 1}))
    keys = ("", ":artists:3", ":user:1", ":user:1:artists", ":plays", ":range", ":range:7")
    assert set(redis_client.scan_iter("{documented:*")) == {f"{{documented:7}}{key}".encode() for key in keys}
    assert redis_client.hgetall("{documented:7}") == {
        b"owner": b"a:1",
        b"epoch": str(claim.epoch).encode(),
        b"format": b"1",
        b"begun": b"1",
        b"ended": b"1",
        b"origin:topic": b"id/8",
        b"begin:topic": b"2",
        b"fold:topic": b"fold",
        b"target:topic": b"5",
        b"offset:topic": b"4",
        b"time:topic": b"0",
        b"count:dead_letters": b"1",
    }
    assert redis_client.get("{documented:7}:artists:3") == "Ä".encode()
    assert redis_client.hgetall("{documented:7}:user:1") == {b"count": b"2"}
    assert redis_client.zrange("{documented:7}:user:1:artists", 0, -1, withscores=True) == [(b"a3", -2.0)]
    assert redis_client.zrange("{documented:7}:range", 0, -1, withscores=True) == [(b"7", 5.0)]
    assert redis_client.zrange("{documented:7}:range:7", 0, -1, withscores=True) == [(b"text", 5.0)]
    assert redis_client.xrange("{documented:7}:plays") == [(b"4-0", {b"text": b"text"})]

    store.commit(Commit(claim, [OffsetAdvance("topic", 4, 5)], [ExpireBefore("range", 6)]))
    assert not redis_client.exists("{documented:7}:range", "{documented:7}:range:7")
    assert redis_client.hget("{documented:7}", "expired:range") == b"6"


def test_others_are_answered_between_the_commits_of_one_call(
    redis_client: Client, redis_name: Callable[[], str]
) -> None:
    name = redis_name()
    store = RedisStore(redis_client, name)
    # Few enough bytes for a single write of the client.
    ranking = IncrementScores("r", {f"{number:x}": 1 for number in range(300)})
    claims = [store.claim(partition, "a:1", {}) for partition in range(3)]

    def offsets() -> set[bytes | None]:
        """Of all partitions, at one moment."""
        with redis_client.pipeline(transaction=True) as moment:
            for claim in claims:
                moment.hget(f"{{{name}:{claim.partition}}}", "offset:topic")
            return set(moment.execute())

    def seen_half_way(call: int) -> bool:
        step = OffsetAdvance("topic", call or None, call + 1)
        with ThreadPoolExecutor(1) as executor:
            committing = executor.submit(store.commit, *(Commit(claim, [step], [ranking]) for claim in claims))
            looks = []
            while not committing.done():
                looks.append(offsets())
            committing.result()
        return any(len(look) > 1 for look in looks)

    assert any(seen_half_way(call) for call in range(20))


def test_what_is_expired_is_removed_by_later_commits(
    redis_client: Client, redis_store: Callable[[], RedisStore]
) -> None:
    store = redis_store()
    claim = store.claim(0, "a:1", {})
    inserts = [Insert("i", str(number), {"x": 1, "y": 2, "z": 3}) for number in range(2_000)]
    store.commit(Commit(claim, [OffsetAdvance("topic", None, 0)], inserts))
    before = redis_client.dbsize()
    for offset in range(13):
        store.commit(Commit(claim, [OffsetAdvance("topic", offset, offset + 1)], [ExpireBefore("i", 9)]))
        assert (redis_client.dbsize() == before - 2_001) == (offset >= 11)


def test_scripts_that_the_server_forgot_are_sent_again(
    redis_store: Callable[[], RedisStore], redis_client: Client
) -> None:
    store = redis_store()
    redis_client.script_flush()
    claim = store.claim(0, "a:1", {})
    redis_client.script_flush()
    store.commit(Commit(claim, [OffsetAdvance("topic", None, 1)], [Put("k", "v"), Insert("i", "k", {"x": 1})]))
    for partitions in ([0, 1], [0]):
        redis_client.script_flush()
        assert store.read({p: [Value("k"), Between("i:k", 0)] for p in partitions})[0].values == ["v", [("x", 1)]]


def test_a_fenced_commit_says_what_the_store_holds(redis_store: Callable[[], RedisStore]) -> None:
    store = redis_store()
    claim = store.claim(4, "a:1", {})
    store.commit(Commit(claim, [OffsetAdvance("topic", None, 3)], []))
    with pytest.raises(Fenced, match=rf":4}} refused topic 1 to 2 .* offset 3, epoch {claim.epoch}, .* claim it again"):
        store.commit(Commit(claim, [OffsetAdvance("topic", 1, 2)], []))


class Unrepaired(Redis):
    """A server without a repair before its start, like in most deployments."""

    def repair(self) -> None:
        pass


def fold(store: RedisStore, records: range) -> None:
    """A commit of `records`, the offsets that are next; each adds 1 to a key of its own."""
    changes: list[Operation] = [Merge(f"k{number}", {"n": 1}) for number in records]
    step = OffsetAdvance("topic", records.start or None, records.stop)
    store.commit(Commit(store.claim(0, "a:1", {}), [step], changes, {"counted": len(records)}))


@pytest.mark.parametrize("kind", [Redis, Unrepaired])
@pytest.mark.parametrize("lost", [b"MULTI", b"k3", b"k5", b"counted", b"offset", b"EXEC"])
def test_a_server_that_loses_the_end_of_a_commit_and_restarts_twice_is_exact_or_refused(
    tmp_path: Path, kind: type[Redis], lost: bytes
) -> None:
    """Redis keeps the beginning of a transaction in its file, and applies it with the next one at its next start."""
    server = kind(tmp_path, free_port())
    server.start()
    client = connect(server.url, 5.0)
    store = RedisStore(client, "app")
    [file] = (tmp_path / "appendonlydir").glob("*.incr.aof")

    def saved() -> bool:
        """While the disk is busy, Redis keeps what is for its file for up to two seconds."""
        return bool(client.info("persistence")["aof_buffer_length"] == 0)

    try:
        fold(store, range(3))
        until(saved)
        kept = file.stat().st_size
        fold(store, range(3, 6))
        until(saved)
        server.kill()
        os.truncate(file, file.read_bytes().rindex(lost, kept) + 1)
        server.start()
        fold(store, range(3, 4))
        until(saved)
        server.kill()
        server.start()
        try:
            fold(store, range(4, 6))
        except IncompleteCommit:
            assert kind is Unrepaired
            return
        found = store.read({0: [Fields(f"k{number}") for number in range(6)]})[0]
        assert (found.positions, found.values, found.counters) == ({"topic": 6}, [{"n": 1}] * 6, {"counted": 6})
    finally:
        client.close()
        server.stop()


# The repair of Redis' append-only file.


def move(server: Redis, start: int | None, end: int, size: int = 1) -> None:
    store = RedisStore(connect(server.url, 5.0), "app")
    claim = store.claim(0, "a:1", {"topic": 9})
    store.commit(Commit(claim, [OffsetAdvance("topic", start, end)], [Put("k", str(end) * size)]))


@pytest.fixture
def server(tmp_path: Path) -> Redis:
    return Redis(tmp_path / "redis", free_port())


def spoil(folder: Path, kept: float) -> tuple[Path, bytes]:
    """Overwrite a byte of the file; `kept` of its length (0 to 1) remains readable."""
    (file,) = (folder / "appendonlydir").glob("*.incr.aof")
    whole = file.read_bytes()
    at = whole.index(b"*", int(len(whole) * kept))
    file.write_bytes(whole[:at] + b"?" + whole[at + 1 :])
    return file, file.read_bytes()


def test_a_damaged_file_is_not_cut_short_without_a_word(
    server: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    server.start()
    try:
        move(server, None, 3)
        for end in range(4, 9):
            move(server, end - 1, end, size=100_000)
        server.stop()
        file, spoilt = spoil(folder, 0.1)
        monkeypatch.setenv("MOST_BYTES", "1000")
        with pytest.raises(DevkitError, match=r"would cut [0-9]+ bytes off"):
            server.start()
        assert file.read_bytes() == spoilt
    finally:
        server.kill()
