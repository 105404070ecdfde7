"""A primary, its replica, and three Sentinels."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devkit.child_process import LOCALHOST, Child, free_port
from tests.redis_cluster import answers, collect_connections, node, say
from tests.waiting import until

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
    # A primary waits 5 s for further replicas, unless it is told not to.
    at_once = ("--repl-diskless-sync-delay", "0")
    redises = [
        node(home / "primary", first, *at_once, "--port", str(first)),
        node(home / "replica", second, *at_once, "--port", str(second), "--replicaof", LOCALHOST, str(first)),
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
            until(partial(answers, f"redis://{LOCALHOST}:{port}"), 20)
        # A Sentinel asks the primary for its replicas when it starts, and then every ten seconds.
        until(lambda: "state=online" in say(first, "INFO replication"), 20)
        for server in sentinels:
            server.start()
        for port in ports:
            until(partial(answers, f"redis://{LOCALHOST}:{port}"), 20)
            until(lambda port=port: knows_all(port), 30)  # type: ignore[misc]
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
