"""The store on the servers of a deployment: a cluster, and one behind TLS that knows its users."""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis
from redis.exceptions import NoPermissionError

from devkit.child_process import LOCALHOST, Child, free_port
from streamstate.state.operations import Merge, Operation, Put
from streamstate.state.reads import Fields, Value
from streamstate.state.redis import RedisStore, connect
from streamstate.state.store import Commit, OffsetAdvance
from tests.certificates import Authority
from tests.serving import until

PARTITIONS = range(8)
SLOTS = 16384


def node(home: Path, port: int, *options: str) -> Child:
    home.mkdir()
    argv = ["redis-server", "--bind", LOCALHOST, "--dir", str(home), "--save", "", *options]
    return Child(f"Redis at {port}", argv, home / "redis.log")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[int]]:
    """Three nodes that share the slots out; their ports."""
    buses = {free_port(): free_port() for _ in range(3)}
    nodes = [
        node(tmp_path / str(port), port, "--port", str(port), "--cluster-enabled", "yes", "--cluster-port", str(bus))
        for port, bus in buses.items()
    ]
    for one in nodes:
        one.start()
    ports = list(buses)
    try:
        for number, (port, bus) in enumerate(buses.items()):
            nodes[number].wait_until(partial(answers, f"redis://{LOCALHOST}:{port}"), 10)
            first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            say(port, f"CLUSTER ADDSLOTSRANGE {first} {last}")
            say(ports[0], f"CLUSTER MEET {LOCALHOST} {port} {bus}")
        until(lambda: all("cluster_state:ok" in say(port, "CLUSTER INFO") for port in ports), 20)
        until(lambda: all("cluster_known_nodes:3" in say(port, "CLUSTER INFO") for port in ports), 20)
        yield ports
    finally:
        for one in nodes:
            one.kill()


def say(port: int, command: str) -> str:
    """The answer of the node at `port`."""
    argv = ["redis-cli", "-p", str(port), *command.split(" ")]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def answers(url: str) -> bool:
    try:
        return bool(connect(url, 1.0).ping())
    except redis.ConnectionError:
        return False


def operations(p: int) -> list[Operation]:
    return [Put("k", str(p)), Merge("f", {"n": p})]


def use(store: RedisStore) -> None:
    """A round of all verbs over all partitions, each verb in one call."""
    claims = {p: store.claim(p, "a:1", {"topic": 5}) for p in PARTITIONS}
    store.commit(*[Commit(claims[p], [OffsetAdvance("topic", None, 3)], operations(p)) for p in PARTITIONS])
    found = store.read({p: [Value("k"), Fields("f")] for p in PARTITIONS})
    assert {p: one.values for p, one in found.items()} == {p: [str(p), {"n": p}] for p in PARTITIONS}
    assert {one.positions["topic"] for one in found.values()} == {3}


def test_a_cluster_of_three_nodes_shares_the_partitions(cluster: list[int]) -> None:
    store = RedisStore(connect(f"redis+cluster://{LOCALHOST}:{cluster[0]}", 5.0), "app")
    use(store)
    assert len({store.claim(p, "a:1", {}).server for p in PARTITIONS}) == 3
    assert sum(redis.Redis(port=port).dbsize() for port in cluster) == 3 * len(PARTITIONS)


def test_a_partition_that_moved_to_another_node_is_found_there(cluster: list[int]) -> None:
    """The client is told by the node that it asks; a claim of before the move does not count any more."""
    store = RedisStore(connect(f"redis+cluster://{LOCALHOST}:{cluster[0]}", 5.0), "app")
    use(store)
    nodes = [say(port, "CLUSTER MYID") for port in cluster]
    move = ["--cluster-from", nodes[0], "--cluster-to", nodes[1], "--cluster-slots", "5461", "--cluster-yes"]
    reshard = ["redis-cli", "--cluster", "reshard", f"{LOCALHOST}:{cluster[0]}", *move]
    subprocess.run(reshard, check=True, capture_output=True)
    found = store.read({p: [Value("k")] for p in PARTITIONS})
    assert {p: one.values for p, one in found.items()} == {p: [str(p)] for p in PARTITIONS}
    assert len({store.claim(p, "a:1", {}).server for p in PARTITIONS}) == 2


def test_a_partition_half_of_which_has_moved_takes_no_part_of_a_commit(cluster: list[int]) -> None:
    store = RedisStore(connect(f"redis+cluster://{LOCALHOST}:{cluster[0]}", 5.0), "app")
    use(store)
    slot = int(say(cluster[0], "CLUSTER KEYSLOT {app:0}"))
    source = next(port for port in cluster if say(port, f"CLUSTER COUNTKEYSINSLOT {slot}") != "0")
    target = next(port for port in cluster if port != source)
    ids = {port: say(port, "CLUSTER MYID") for port in (source, target)}
    say(target, f"CLUSTER SETSLOT {slot} IMPORTING {ids[source]}")
    say(source, f"CLUSTER SETSLOT {slot} MIGRATING {ids[target]}")
    say(source, f"MIGRATE {LOCALHOST} {target} {{app:0}}:k 0 5000")
    claim = store.claim(0, "b:1", {})
    commit = Commit(claim, [OffsetAdvance("topic", 3, 4)], [Merge("f", {"n": 1}), Put("k", "new")])
    with pytest.raises(redis.RedisError):
        store.commit(commit)
    held = redis.Redis(port=source)
    assert (held.hget("{app:0}:f", "n"), held.hget("{app:0}", "offset:topic")) == (b"0", b"3")

    say(source, f"MIGRATE {LOCALHOST} {target}  0 5000 KEYS {{app:0}} {{app:0}}:f")
    for port in (target, source):
        say(port, f"CLUSTER SETSLOT {slot} NODE {ids[target]}")
    claim = store.claim(0, "b:1", {"topic": 5})
    assert claim.positions == {"topic": 3}
    store.commit(Commit(claim, commit.steps, commit.operations))
    assert store.read({0: [Value("k"), Fields("f")]})[0].values == ["new", {"n": 1}]


def test_tls_and_a_user_who_may_only_what_the_store_does(tmp_path: Path) -> None:
    port, authority = free_port(), Authority(tmp_path / "ca")
    certificate, key = authority.issue("redis", LOCALHOST)
    tls = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(authority.path)]
    rights = (
        "~{app:* +evalsha +script|load +info +hset +hget +hmget +hgetall +hincrby +hsetnx +set +get +exists "
        "+time +client +ping"
    )
    user = ("--user", "app", "on", ">secret", *rights.split(), "--user", "default", "off")
    tls += ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
    server = node(tmp_path / "redis", port, *tls, *user)
    url = f"rediss://app:secret@{LOCALHOST}:{port}/0?ssl_ca_certs={authority.path}"
    server.start()
    try:
        server.wait_until(lambda: answers(url), 10)
        use(RedisStore(connect(url, 5.0), "app"))
        with pytest.raises(NoPermissionError):
            RedisStore(connect(url, 5.0), "other").claim(0, "a:1", {})
        with pytest.raises(redis.ConnectionError, match="certificate"):
            connect(f"rediss://app:secret@{LOCALHOST}:{port}/0", 5.0).ping()
    finally:
        server.kill()
