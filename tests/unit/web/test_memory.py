"""The memory of a state: in the owner map if asked for, measured at most once a minute."""

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import NoPermissionError
from werkzeug.test import Client

from devkit import registry
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver, FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.memory import StateMemory
from tests.raw import feed_plays
from tests.serving import Loop

ASKED = "/processors?memory=true"


Ask = Callable[[str], Any]


def asking(loop: Loop, memory: StateMemory) -> Ask:
    """Answers of a profile by their paths."""
    app, store, settings = registry.app("profile"), MemoryStore(), load(ApiSettings)
    store.claim(0, settings.advertise, {})
    feed_plays(Driver(app, store), [(7, 1, 2, 3, 1_000)])
    freshness = Freshness(FixedTopics(dict.fromkeys(app.topics, 1)), app.topics)
    client = Client(loop.wsgi(build(app, settings, MemoryReader(store), freshness, memory=memory)))
    return lambda path: client.get(path).json


def test_the_memory_is_measured_if_asked_for_and_once_a_minute(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter((17, 18))
    ask = asking(loop, StateMemory(lambda: next(figures)))
    assert "memory" not in ask("/processors")
    assert [ask(ASKED)["memory"] for _ in range(3)] == [17] * 3
    monkeypatch.setattr("streamstate.web.memory.FRESH_S", 0.0)
    assert ask(ASKED)["memory"] == 18


def test_a_user_of_redis_without_the_rights_has_no_figure(loop: Loop) -> None:
    def refused() -> int:
        raise NoPermissionError

    assert asking(loop, StateMemory(refused))(ASKED)["memory"] is None


def test_the_map_has_the_declaration_of_a_profile(loop: Loop) -> None:
    own, view = asking(loop, StateMemory(int))("/processors")["views"]
    assert "profile" not in own
    assert view["profile"]["measures"]["devices"] == {"count": "all", "by": "device", "over": "7d"}
