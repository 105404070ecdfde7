"""Answers in several reads: all reads see one state, whatever happens to the state between two of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from werkzeug.test import Client

from devkit.servers.child_process import free_port
from streamstate.keys import LONG, partition_of
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.settings import ApiSettings
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Read
from streamstate.state.store import Snapshot
from streamstate.testing import Driver, FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.serving import Loop
from tests.waiting import now_ms

APP = profile_app(
    parse("""
name: found
topic: events
key: long
path: /v1/users/<key>/found
measures: {plays: {count: all, over: [1h, ever], index: true}}
rules: {often: {when: {plays: {ge: 1}}, over: ever}}
""")
)
PARTITIONS, USERS = 2, 100
ANSWERS: Mapping[str, Callable[[Any], int]] = {
    "/v1/users/found/count?where=plays_ever.ge.1": lambda answer: answer["count"],
    "/v1/users/found/count?where=plays_1h.ge.1": lambda answer: answer["count"],
    "/v1/users/found/find?where=plays_ever.ge.1": lambda answer: len(answer["keys"]),
    "/v1/rules/found/often": lambda answer: len(answer["crossings"]),
}


class Changing(MemoryReader):
    """A reader of `store`; `change` happens before the last of `left` reads."""

    def __init__(self, store: MemoryStore, change: Callable[[MemoryStore], object]) -> None:
        super().__init__(store)
        self.left = 0
        self._changed, self._change = store, change

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        self.left -= 1
        if self.left == 0:
            self._change(self._changed)
        return await super().read(wanted)


def fed(store: MemoryStore, users: int = USERS) -> MemoryStore:
    driver, time_ms = Driver(APP, store, PARTITIONS), now_ms()
    logs: list[list[Any]] = [[] for _ in range(PARTITIONS)]
    for user in range(users):
        log = logs[partition_of(key := LONG.encode(user), PARTITIONS)]
        log.append((len(log), time_ms, key, b"{}"))
    for partition, log in enumerate(logs):
        driver.feed(partition, {"events": log})
    return store


def emptied(store: MemoryStore) -> None:
    for partition in range(PARTITIONS):
        store.delete(partition)


def built_again(store: MemoryStore) -> None:
    """A reset, whose build has folded some records."""
    emptied(store)
    for partition in range(PARTITIONS):
        store.claim(partition, "driver:1", {"events": USERS})
    fed(store, 20)


def client(loop: Loop, reader: MemoryReader) -> Client:
    """A client that has asked before, so the number of partitions is known."""
    own: Any = {"advertise": f"127.0.0.1:{free_port()}"}
    settings = ApiSettings(**own)
    topics = FixedTopics({"events": PARTITIONS})
    asking = Client(loop.wsgi(build(APP, settings, reader, Freshness(topics, APP.topics))))
    assert asking.get("/v1/users/1/found").status_code == 200
    return asking


@pytest.mark.parametrize("change", [emptied, built_again])
@pytest.mark.parametrize("path", ANSWERS)
def test_an_answer_is_of_one_state_or_503(loop: Loop, path: str, change: Callable[[MemoryStore], None]) -> None:
    def asked(left: int) -> tuple[int, Any, bool]:
        reader = Changing(fed(MemoryStore()), change)
        asking = client(loop, reader)
        reader.left = left
        response = asking.get(path)
        return response.status_code, response.get_json(force=True), reader.left <= 0

    number = 1
    while (found := asked(number))[2]:
        assert found[0] == 503, (number, found)
        number += 1
    assert (found[0], ANSWERS[path](found[1])) == (200, USERS)
    assert number > 2
