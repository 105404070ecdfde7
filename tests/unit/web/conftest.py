"""A tiny app with a key of each type, and its API over a store in memory."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from apiflask import APIFlask
from flask.testing import FlaskClient

from devkit.process import free_port
from streamstate.app import App, Fold, Found, Record, Source, View
from streamstate.keys import LONG, TEXT, KeyCodec, partition_of
from streamstate.settings import ApiSettings
from streamstate.state import Commit, Fields, Merge, Operation, Read, Step
from streamstate.testing import MemoryStore
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.serving import FixedTopics, Served, Wsgi

COUNTS = {"numbers": 4, "words": 2}


class Tally(msgspec.Struct):
    """How often a key came."""

    key: str
    count: int


def _decode(_key: Any, _value: bytes | None) -> None:
    return None


def _fold(records: Sequence[Record[Any, None]], _found: Found) -> Iterable[Operation]:
    for record in records:
        yield Merge(f"tally:{record.key}", add={"count": 1})


def _reads(key: Any) -> Sequence[Read]:
    return [Fields(f"tally:{key}")]


def _answer(key: Any, values: Sequence[Any]) -> Tally | None:
    return Tally(str(key), values[0]["count"]) if values[0] else None


def _view(name: str, codec: KeyCodec[Any]) -> View[Any]:
    return View(name, f"/v1/{name}/<key>", f"How often one of the {name} came", name, codec, _reads, _answer, Tally)


APP = App(
    "tally",
    (Fold((Source("numbers", LONG, _decode),), _fold), Fold((Source("words", TEXT, _decode),), _fold)),
    (_view("numbers", LONG), _view("words", TEXT)),
)


@dataclass(frozen=True)
class Instance:
    """One instance of the API at `address`, asked through `client`."""

    address: str
    app: APIFlask
    client: FlaskClient


@dataclass
class Service:
    """Instances over one state, which tests write by hand."""

    store: MemoryStore
    topics: FixedTopics
    freshness: Freshness
    serve: Callable[[str, Wsgi], Served]

    def instance(self, **settings: Any) -> Instance:
        address = f"127.0.0.1:{free_port()}"
        app = build(APP, ApiSettings(**{"advertise": address, **settings}), self.store, self.topics, self.freshness)
        return Instance(address, app, app.test_client())

    def served(self) -> tuple[Instance, Served]:
        one = self.instance()
        return one, self.serve(one.address, one.app)

    def own(self, owner: str, *partitions: int, ends: int = 0) -> None:
        """Let `owner` claim `partitions`, all of them when none is named; `ends` are the targets of a first claim."""
        for partition in partitions or range(4):
            self.store.claim(partition, owner, {topic: ends for topic, n in COUNTS.items() if partition < n})

    def count(self, topic: str, key: Any, times: int = 1, owner: str = "10.0.0.1:1") -> int:
        """Count `key` of `topic`; returns its partition."""
        codec = LONG if topic == "numbers" else TEXT
        partition = partition_of(codec.encode(key), COUNTS[topic])
        owner = self.store.read({partition: []})[partition].owner or owner
        claim = self.store.claim(partition, owner, {})
        position = claim.positions.get(topic)
        step = [Merge(f"tally:{key}", add={"count": times})]
        self.store.commit(Commit(claim, [Step(topic, position, (position or 0) + 1)], step))
        return partition


@pytest.fixture
def service(serve: Callable[[str, Wsgi], Served]) -> Service:
    topics = FixedTopics(COUNTS)
    return Service(MemoryStore(), topics, Freshness(topics, APP.topics), serve)


@pytest.fixture
def api(service: Service) -> Instance:
    """An instance that owns every partition."""
    one = service.instance()
    service.own(one.address)
    return one
