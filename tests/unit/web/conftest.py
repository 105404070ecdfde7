"""A tiny app with a key of each type, and its API over a store in memory."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
from werkzeug.test import Client

from devkit.servers.child_process import free_port
from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.keys import LONG, TEXT, KeyCodec, partition_of
from streamstate.settings import ApiSettings
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Fields, Merge, Operation, Read
from streamstate.state.store import Claim, Commit, OffsetAdvance, Origin
from streamstate.testing import FixedTopics, MemoryReader
from streamstate.view import View
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.server.asgi import Asgi
from tests.serving import Loop, Serve, Served

COUNTS = {"numbers": 4, "words": 2}


class Tally(msgspec.Struct):
    """How often a key came."""

    key: str
    count: int


TALLY = Tally("42", 3)


def _decode(_key: Any, _value: bytes | None) -> None:
    return None


def _fold(records: Sequence[Record[Any, None]], _context: FoldContext) -> Iterable[Operation]:
    for record in records:
        yield Merge(f"tally:{record.key}", add={"count": 1})


def _reads(key: Any) -> Sequence[Read]:
    return [Fields(f"tally:{key}")]


def _answer(key: Any, values: Sequence[Any]) -> Tally | None:
    return Tally(str(key), values[0]["count"]) if values[0] else None


def _view(name: str, codec: KeyCodec[Any]) -> View[Any]:
    return View(name, f"/v1/{name}/<key>", f"How often one of the {name} came", name, codec, _reads, _answer, TALLY)


class Least(msgspec.Struct, frozen=True):
    """The parameters of a question about everything."""

    least: Annotated[int, msgspec.Meta(ge=0, le=9, description="leave smaller counts out")] = 0


class Counts(msgspec.Struct):
    """How often each word came."""

    counts: dict[str, int]


def _all_reads(_query: Least) -> Sequence[Read]:
    return [Fields("all")]


def _all_counts(partitions: Sequence[Sequence[Any]], query: Least) -> Counts:
    counts: Counter[str] = Counter()
    for (fields,) in partitions:
        counts.update(fields)
    return Counts({word: count for word, count in counts.items() if count >= query.least})


def _sum_reads(_key: str) -> Sequence[Read]:
    return [Fields("all")]


def _sum(key: str, partitions: Sequence[Sequence[Any]]) -> Tally | None:
    count = sum(fields.get(key, 0) for (fields,) in partitions)
    return Tally(key, count) if count else None


def _above_reads(key: int, _query: Least) -> Sequence[Read]:
    return _reads(key)


def _above(key: int, values: Sequence[Any], query: Least) -> Tally | None:
    tally = _answer(key, values)
    return tally if tally and tally.count >= query.least else None


ALL: View[Any] = View("all", "/v1/all", "Everything", None, None, _all_reads, _all_counts, Counts({"anna": 3}), Least)
SUM = View("sum", "/v1/sum/<key>", "A word wherever it is counted", None, TEXT, _sum_reads, _sum, TALLY)
ABOVE = View(
    "above", "/v1/above/<key>", "A number that came often", "numbers", LONG, _above_reads, _above, TALLY, Least
)

APP = App(
    "tally",
    (Fold((Source("numbers", LONG, _decode),), _fold), Fold((Source("words", TEXT, _decode),), _fold)),
    (_view("numbers", LONG), _view("words", TEXT), ALL, SUM, ABOVE),
)


@dataclass(frozen=True)
class Instance:
    """One instance of the API at `address`, asked through `client`."""

    address: str
    app: Asgi
    client: Client


@dataclass
class Service:
    """Instances over a common state, written by tests."""

    store: MemoryStore
    topics: FixedTopics
    freshness: Freshness
    serve: Serve
    loop: Loop

    def instance(self, **settings: Any) -> Instance:
        address = f"127.0.0.1:{free_port()}"
        app = build(APP, ApiSettings(**{"advertise": address, **settings}), MemoryReader(self.store), self.freshness)
        return Instance(address, app, Client(self.loop.wsgi(app)))

    def served(self) -> tuple[Instance, Served]:
        instance = self.instance()
        return instance, self.serve(instance.address, instance.app)

    def own(self, owner: str, *partitions: int, ends: int = 0) -> None:
        """Let `owner` claim `partitions`, all of them when none is named; `ends` are the targets of a first claim."""
        for partition in partitions or range(4):
            self.claim(partition, owner, ends)

    def claim(self, partition: int, owner: str, ends: int = 0) -> Claim:
        """Let `owner` claim `partition` of topics as they are now."""
        origins = {topic: Origin(topic, count) for topic, count in self.topics.counts.items()}
        return self.store.claim(partition, owner, {t: ends for t, n in COUNTS.items() if partition < n}, origins)

    def count(self, topic: str, key: Any, times: int = 1, owner: str = "10.0.0.1:1") -> int:
        """Count `key` of `topic`; returns its partition."""
        codec = LONG if topic == "numbers" else TEXT
        partition = partition_of(codec.encode(key), COUNTS[topic])
        owner = self.store.read({partition: []})[partition].owner or owner
        claim = self.claim(partition, owner)
        position = claim.positions.get(topic)
        step = [Merge(f"tally:{key}", add={"count": times}), Merge("all", add={str(key): times})]
        self.store.commit(Commit(claim, [OffsetAdvance(topic, position, (position or 0) + 1)], step))
        return partition


@pytest.fixture
def service(serve: Serve, loop: Loop) -> Service:
    topics = FixedTopics(COUNTS)
    return Service(MemoryStore(), topics, Freshness(topics, APP.topics), serve, loop)


@pytest.fixture
def api(service: Service) -> Instance:
    """An instance that owns every partition."""
    instance = service.instance()
    service.own(instance.address)
    return instance
