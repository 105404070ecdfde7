"""A Redis Cluster of three nodes whose slots move, and a primary with a replica that Sentinels watch."""

import gc
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis

from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.state.redis_connections import NO_LOGIN, Login, connect
from tests.waiting import PATIENCE_S, pause, until

SLOTS = 16384

AT_ONCE = ("--repl-diskless-sync-delay", "0")
"""Redis waits 5 s for further replicas before a copy of its state, a backup too, unless it is told not to."""

MIGRATE_MS = 60_000
"""What a node may take for some keys: it answers nobody while a busy disk takes its list of nodes."""


def node(home: Path, port: int, *options: str) -> Child:
    home.mkdir(parents=True)
    argv = ["redis-server", "--bind", LOCALHOST, "--dir", str(home), "--save", "", *options]
    return Child(f"Redis at {port}", argv, home / "redis.log")


def collect_connections() -> None:
    """Let connections without a client go here, not in a later test.

    redis-py does not close clients of nodes that have left, and Python may finalize a socket before its client.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def three_nodes(home: Path) -> Iterator[list[int]]:
    """Three nodes that share the slots out, with their files in `home`; their ports."""
    buses = {free_port(): free_port() for _ in range(3)}
    nodes = [
        node(
            home / str(port),
            port,
            *AT_ONCE,
            "--port",
            str(port),
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            str(bus),
        )
        for port, bus in buses.items()
    ]
    for one in nodes:
        one.start()
    ports = list(buses)
    try:
        for number, (port, bus) in enumerate(buses.items()):
            nodes[number].wait_until(partial(answers, f"redis://{LOCALHOST}:{port}"), PATIENCE_S)
            first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            # As `redis-cli --cluster create` does. Of two nodes with one epoch, one takes a higher epoch some time, and
            # with it a slot back that it has just given away.
            tell(port, f"CLUSTER SET-CONFIG-EPOCH {number + 1}")
            tell(port, f"CLUSTER ADDSLOTSRANGE {first} {last}")
            tell(ports[0], f"CLUSTER MEET {LOCALHOST} {port} {bus}")
        until(lambda: all("cluster_state:ok" in say(port, "CLUSTER INFO") for port in ports))
        until(lambda: all("cluster_known_nodes:3" in say(port, "CLUSTER INFO") for port in ports))
        yield ports
    finally:
        for one in nodes:
            one.kill()
        collect_connections()


def cluster_url(ports: list[int]) -> str:
    """The cluster's address for `connect`."""
    return f"redis+cluster://{LOCALHOST}:{ports[0]}"


def reshard(ports: list[int], source: int, target: int, slots: int) -> None:
    """Move `slots` slots between the nodes at these places in `ports`, as an operator does."""
    nodes = [say(ports[place], "CLUSTER MYID") for place in (source, target)]
    move = ["--cluster-from", nodes[0], "--cluster-to", nodes[1], "--cluster-slots", str(slots), "--cluster-yes"]
    command = ["redis-cli", "--cluster", "reshard", f"{LOCALHOST}:{ports[0]}", *move]
    subprocess.run(command, check=True, capture_output=True)


def say(port: int, command: str) -> str:
    """The answer of the node at `port`."""
    argv = ["redis-cli", "-p", str(port), *command.split(" ")]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def tell(port: int, command: str) -> None:
    """Run a command at the node at `port`."""
    assert (answer := say(port, command)) == "OK", f"{command}: {answer}"


def answers(url: str, login: Login = NO_LOGIN) -> bool:
    try:
        return bool(connect(url, 1.0, login).ping())
    except redis.ConnectionError:
        return False


@dataclass(frozen=True)
class Migration:
    """A slot on its way from one node of a cluster to another, moved as `redis-cli --cluster reshard` does."""

    slot: int
    source: int
    target: int

    @classmethod
    def start(cls, cluster: list[int], hash_tag: str) -> "Migration":
        """Of the slot of the keys with this hash tag, to the next node."""
        slot = int(say(cluster[0], f"CLUSTER KEYSLOT {hash_tag}"))
        holders = [say(port, f"CLUSTER COUNTKEYSINSLOT {slot}") != "0" for port in cluster]
        source = holders.index(True)
        started = cls(slot, cluster[source], cluster[(source + 1) % len(cluster)])
        tell(started.target, f"CLUSTER SETSLOT {slot} IMPORTING {say(started.source, 'CLUSTER MYID')}")
        tell(started.source, f"CLUSTER SETSLOT {slot} MIGRATING {say(started.target, 'CLUSTER MYID')}")
        return started

    def move(self, *keys: str) -> None:
        # The empty word is where a single key would be.
        tell(self.source, f"MIGRATE {LOCALHOST} {self.target}  0 {MIGRATE_MS} KEYS {' '.join(keys)}")

    def move_rest(self, pause_s: float = 0, at_once: int = 1) -> None:
        """The keys that are left, so many `at_once`, then the slot itself."""
        while keys := say(self.source, f"CLUSTER GETKEYSINSLOT {self.slot} {at_once}").split():
            self.move(*keys)
            pause(pause_s)
        for port in (self.target, self.source):
            tell(port, f"CLUSTER SETSLOT {self.slot} NODE {say(self.target, 'CLUSTER MYID')}")


# A primary, its replica, and three Sentinels.

PRIMARY = "profiles"
_SENTINEL = """port {port}
bind {host}
dir {home}
sentinel monitor {name} {host} {primary} 2
sentinel down-after-milliseconds {name} 1000
sentinel failover-timeout {name} 5000
"""


@dataclass(frozen=True)
class Watched:
    """The servers, and the address of what the Sentinels watch."""

    primary: Child
    replica: Child
    primary_port: int
    replica_port: int
    url: str

    def promoted(self) -> bool:
        """Whether the replica has become the primary and has cut off its clients, as a Sentinel tells it to.

        Both are parts of one transaction: who connects after the log has its beginning is answered after its end.
        """
        begun = "MASTER MODE enabled" in self.replica.log.read_text()
        return begun and "role:master" in say(self.replica_port, "INFO replication")


@contextmanager
def watched(home: Path) -> Iterator[Watched]:
    """Everything runs, and the Sentinels know each other and the replica."""
    first, second, ports = free_port(), free_port(), [free_port() for _ in range(3)]
    redises = [
        node(home / "primary", first, *AT_ONCE, "--port", str(first)),
        node(home / "replica", second, *AT_ONCE, "--port", str(second), "--replicaof", LOCALHOST, str(first)),
    ]
    sentinels = []
    for port in ports:
        (folder := home / str(port)).mkdir()
        (folder / "sentinel.conf").write_text(
            _SENTINEL.format(port=port, host=LOCALHOST, home=folder, name=PRIMARY, primary=first)
        )
        argv = ["redis-server", str(folder / "sentinel.conf"), "--sentinel"]
        sentinels.append(Child(f"Sentinel at {port}", argv, folder / "sentinel.log"))
    try:
        for server in redises:
            server.start()
        for port in (first, second):
            until(partial(answers, f"redis://{LOCALHOST}:{port}"))
        # A Sentinel asks the primary for its replicas when it starts, and then every ten seconds.
        until(lambda: "state=online" in say(first, "INFO replication"))
        for server in sentinels:
            server.start()
        for port in ports:
            until(partial(answers, f"redis://{LOCALHOST}:{port}"))
            until(lambda port=port: knows_all(port))  # type: ignore[misc]
        hosts = ",".join(f"{LOCALHOST}:{port}" for port in ports)
        yield Watched(redises[0], redises[1], first, second, f"redis+sentinel://{hosts}/{PRIMARY}/0")
    finally:
        for server in (*redises, *sentinels):
            server.kill()
        collect_connections()


def knows_all(port: int) -> bool:
    """Whether the Sentinel at `port` knows the replica and the two others."""
    words = say(port, f"SENTINEL MASTER {PRIMARY}").split("\n")
    told = dict(zip(words[::2], words[1::2], strict=False))
    return (told.get("num-slaves"), told.get("num-other-sentinels")) == ("1", "2")
