"""Two callers at one gateway: the reads of one while the other uses its limits to the full, in each expensive way."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from devkit import DevkitError
from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.demo import say
from devkit.lab import wrk
from devkit.lab.servers import CAUGHT_UP_S, servers, settle
from devkit.lab.targets import Report, Target
from devkit.servers.child_process import LOCALHOST, free_port
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.keys import LONG
from streamstate.web.access import keys

PROFILE = """
name: flood
topic: floods
key: long
path: /v1/users/<key>/flood
fields: {device: str}
measures:
  plays: {count: all, over: [1d, ever], index: true}
  devices: {count: all, by: device, over: [1d, ever]}
"""
USERS, DEVICES, DEVICE_BYTES = 500, 30_000, 300
READ = "/v1/users/7/flood"
FIND, COUNT = "/v1/users/flood/find?where=", "/v1/users/flood/count"
MANY, FILTER = "/v1/many?", "where=plays_1d.ge.1"
WAYS = {
    "a path of 3,000 segments": "/v1" + "/a" * 3_000,
    "one key 200 times": MANY + "&".join(["flood=1"] * 200),
    "200 keys": MANY + "&".join(f"flood={user}" for user in range(2, 202)),
    "a user of 30,000 devices": "/v1/users/1/flood",
    "100 values": f"{FIND}plays_ever.in.{','.join(map(str, range(100)))}",
    "eight comparisons": f"{COUNT}?{'&'.join([FILTER] * 8)}",
    "streams of counts": f"{COUNT}/stream?{FILTER}",
    "streams of a user": f"{READ}/stream",
    "200 parameters": f"{READ}?{'&'.join(f'p{number}=1' for number in range(199))}",
    "the document": "/openapi.json",
    "a search of users": "/v1/users?q=4",
}
ROUNDS, READ_S, READS_PER_S, READERS = 3, 6, 50, 4
LEAD_S = 1
"""The hostile caller begins so many seconds before the reads, and ends after them."""

HOSTILE_PER_S, HOSTILE_CONNECTIONS = 200, 64
"""Twice the requests that a caller may send."""


class Callers(NamedTuple):
    """The address of the gateway, and the API keys of the caller that reads and of the hostile one."""

    address: str
    reader: str
    hostile: str

    def p99_ms(self) -> float:
        """The p99 of the reader's reads, in milliseconds."""
        clients = wrk.Clients(READERS, READ_S, READS_PER_S, token=self.reader)
        return wrk.run(self.address, [READ], clients).p99_ms

    def p99_beside_ms(self, path: str) -> float:
        """The same while the hostile caller requests `path`."""
        clients = wrk.Clients(HOSTILE_CONNECTIONS, READ_S + 2 * LEAD_S, HOSTILE_PER_S, token=self.hostile)
        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(wrk.run, self.address, [path], clients)
            time.sleep(LEAD_S)
            p99 = self.p99_ms()
        # Streams never answer, which wrk takes for a failure.
        if (error := load.exception()) and not isinstance(error, DevkitError):
            raise error
        return p99


def measure(home: Path, report: Report) -> None:
    """Measure in servers of its own."""
    home.mkdir()
    profile = home / "flood.yaml"
    profile.write_text(PROFILE)
    with servers(home / "cluster", services=(str(profile),)) as cluster:
        send_all(producer(cluster.kafka.bootstrap), _events())
        cluster.start_services()
        settle(cluster)
        cluster.streams.stop()
        with _served(cluster, home) as callers:
            callers.p99_ms()
            report.targets += [_target(callers, way, path) for way, path in WAYS.items()]


def _target(callers: Callers, way: str, path: str) -> Target:
    rounds = [(callers.p99_ms(), callers.p99_beside_ms(path)) for _ in range(ROUNDS)]
    quiet, beside = map(statistics.median, zip(*rounds, strict=True))
    say(f"{way}: p99 {quiet:.1f} ms, beside {beside:.1f} ms")
    return Target(f"p99 of a caller's reads beside another's {way}, over that alone", beside / quiet, 2, unit="x")


def _events() -> Iterator[Outgoing]:
    devices = [(1, f"{number:0{DEVICE_BYTES}d}") for number in range(DEVICES)]
    for user, device in (*devices, *((user, "tv") for user in range(2, USERS))):
        yield "floods", LONG.encode(user), msgspec.json.encode({"device": device}), []


@contextmanager
def _served(cluster: LocalCluster, home: Path) -> Iterator[Callers]:
    """A further gateway that knows both callers."""
    callers = Callers(f"{LOCALHOST}:{free_port()}", keys.generate(), keys.generate())
    known = [
        keys.Key(name, keys.digest(key), ("read", "explore"))
        for name, key in (("reader", callers.reader), ("hostile", callers.hostile))
    ]
    file, tokens = home / "keys", home / "tokens"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, known)))
    tokens.write_text(keys.generate())
    settings = {"ACCESS": "required", "ACCESS_KEYS": str(file), "INTERNAL_TOKENS": str(tokens)}
    with cluster.further_gateway(callers.address, **settings) as gateway:
        gateway.wait_until(lambda: answers(f"http://{callers.address}/readyz"), CAUGHT_UP_S)
        yield callers
