"""Hand-overs of a re-keyed topic between two releases, which both fold it: each purchase counts once in each."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec
import psutil
import pytest

from devkit.demo import CACHE
from devkit.repeating import repeating
from devkit.servers.child_process import LOCALHOST
from streamstate.keys import Marker
from streamstate.releases.pointer import Pointer
from streamstate.releases.record import Releases as Record
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from tests.integration.releases import PARTITIONS, Command, Releases
from tests.stream_host import StreamHost
from tests.waiting import pause, until

FIRST, SECOND = "returns", "returns-2"
KEYED = f"{FIRST}-by-userId-int"
PACKAGE = "services.profile"
USERS = 20
BURST = 2_000
YAML = f"""
name: {FIRST}
topic: {FIRST}
key: value.userId
path: /v1/users/<key>/{FIRST}
fields: {{userId: int}}
measures:
  orders: {{count: all}}
"""


class Shop:
    """Two releases over the purchases that were `sent`, the first slower, in processes of their own."""

    def __init__(self, releases: Releases, other: StreamHost, home: Path) -> None:
        self._releases, self._draw = releases, Random(2)
        self.other = other
        self.sent = Counter[int]()
        (file := home / "returns.yaml").write_text(YAML)
        settings = {"PROFILE": str(file), "ADVERTISE": f"{LOCALHOST}:1"}
        self.command = Command(releases, PACKAGE, **settings)
        # The first is the one that is slow, and hangs.
        self.old = other.deployment(releases.cluster, PACKAGE, FIRST, {}, TRIGGER_MS="1500", **settings)
        self.new = releases.make(PACKAGE, SECOND, {}, RELEASE_OF=FIRST, **settings)
        client = connect(releases.cluster.redis.url, 5.0)
        self.pointer = Pointer(client, FIRST)
        self.stores = [RedisStore(client, name) for name in (FIRST, SECOND)]

    def send(self, count: int) -> None:
        for number in range(count):
            self.sent[user := self._draw.randrange(USERS)] += 1
            value = msgspec.json.encode({"userId": user})
            self._releases.out.produce(FIRST, value, partition=number % PARTITIONS)
        self._releases.out.flush()

    def counted(self, store: RedisStore) -> Counter[int]:
        reads = [Fields(f"numbers:{user}") for user in range(USERS)]
        states = store.read(dict.fromkeys(range(PARTITIONS), reads)).values()
        return +Counter({user: sum(of.values[user].get("#", 0) for of in states) for user in range(USERS)})

    def complete(self) -> bool:
        return all(self.counted(store) == self.sent for store in self.stores)

    def causes(self) -> set[Marker | None]:
        return {Marker.from_headers(record.headers()) for record in self._releases.read(KEYED)}

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The process of the first release hangs."""
        process = psutil.Process(self.other.pid)
        held = [process, *process.children(recursive=True)]
        for each in held:
            each.suspend()
        try:
            yield
        finally:
            for each in held:
                each.resume()

    def switch(self, *orders: str) -> None:
        for order in orders:
            answer = self.command.run(order, PACKAGE.rpartition(".")[2], "--without-gateway")
            assert answer["outputs_seconds"] > 0


@pytest.fixture
def shop(releases: Releases, tmp_path: Path) -> Iterator[Shop]:
    releases.create(FIRST, f"{FIRST}-dlq")
    releases.create(KEYED, partitions=PARTITIONS - 1)
    other = StreamHost(tmp_path, CACHE)
    shop = Shop(releases, other, tmp_path)
    with ExitStack() as stack:
        stack.callback(other.kill)
        shop.send(300)
        stack.enter_context(shop.old)
        until(lambda: shop.counted(shop.stores[0]) == shop.sent, "the first build")
        shop.command.run("stage", "profile", "--name", SECOND)
        stack.enter_context(shop.new)
        shop.command.run("wait", "profile", "--timeout", "120")
        yield shop


def test_no_purchase_is_lost_by_hand_overs(shop: Shop) -> None:
    with repeating(partial(shop.send, 20), 0.05):
        shop.switch("promote", "back", "promote", "back")
        burst_between_the_fence_and_the_cut(shop)
        shop.switch("back")
        with ThreadPoolExecutor(1) as pool:
            with shop.suspended():
                switched = pool.submit(shop.switch, "promote")
                until(lambda: (record := shop.pointer.read()) and record.former == FIRST, "the cuts")
                published = len(shop.causes())
                pause(6)
                assert len(shop.causes()) == published
            switched.result()
    until(shop.complete, "all purchases in both releases")
    assert len(shop.causes()) == shop.sent.total()


def burst_between_the_fence_and_the_cut(shop: Shop) -> None:
    replace, writes = Pointer.replace, list[Record]()

    def slow(pointer: Pointer, before: Record | None, after: Record) -> None:
        writes.append(after)
        if len(writes) > 1 and writes[-2].successor:
            shop.send(BURST)
        replace(pointer, before, after)

    with patch.object(Pointer, "replace", slow):
        shop.switch("promote")
