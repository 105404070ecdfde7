"""The kept state of a topic: last values, history, windows; and their settings."""

import base64
import json
from typing import Any

import pytest
from openapi_spec_validator import validate
from werkzeug.test import Client

from services.topics.model import app
from services.topics.settings import EXAMPLE, KeptSettings, KeptTopic, RangeIndex, WindowIndex
from streamstate.errors import Misconfigured
from streamstate.keys import CODECS
from streamstate.operators.pages import Page
from streamstate.processing.decode import RawRecord
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver, FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.raw import plain
from tests.serving import Loop

# A topic as a key-value store: last values, histories, windows, for each type of value.

Line = tuple[int, Any, bytes | None]
"""Milliseconds, key, value."""


def kept(**given: Any) -> KeptTopic:
    return KeptTopic(**{"topic": "t", "key": "text", "value": "json", **given})


def fed(topic: KeptTopic, *lines: Line, driver: Driver | None = None) -> Driver:
    driver = driver or Driver(app(KeptSettings(kept=(topic,))), MemoryStore())
    start = driver.store.read({0: []})[0].positions.get(topic.topic, 0)
    encode = CODECS[topic.key].encode
    raw: list[RawRecord] = [(n, time, encode(key), value) for n, (time, key, value) in enumerate(lines, start)]
    driver.feed(0, {topic.topic: raw})
    return driver


def ask(driver: Driver, view: str, key: Any = "k", **page: Any) -> Any:
    """The answer, None for a key that is unknown."""
    found = driver.view(view, key, Page(**page) if view != "topic-t" else None)
    return None if found is None else plain(found)


class TestLatest:
    def test_the_last_value_has_its_offset_and_timestamp(self) -> None:
        driver = fed(kept(), (5, "k", b'{"a": 1}'), (3, "k", b' {"a": [2.50, null]} '), (4, "other", b"0"))
        assert ask(driver, "topic-t") == {"key": "k", "value": {"a": [2.5, None]}, "offset": 1, "timestamp": 3}
        assert ask(driver, "topic-t", "none") is None

    @pytest.mark.parametrize(
        ("kind", "value", "answer"),
        [
            ("json", b"12345678901234567890123", 12345678901234567890123), ("json", b"null", None),
            ("json", '"é\\u0000"'.encode(), "é\0"), ("text", b"", ""), ("text", 'a "b"\n\0 ü'.encode(), 'a "b"\n\0 ü'),
            ("bytes", b"\xff\0\n", base64.b64encode(b"\xff\0\n").decode()), ("bytes", b"", ""),
        ],
    )  # fmt: skip
    def test_a_value_comes_back_as_it_was(self, kind: str, value: bytes, answer: Any) -> None:
        assert ask(fed(kept(value=kind), (1, "k", value)), "topic-t")["value"] == answer

    @pytest.mark.parametrize(("kind", "value"), [("json", b"{"), ("json", b""), ("json", b'"\xff"'), ("text", b"\xff")])
    def test_a_value_of_another_type_is_a_dead_letter(self, kind: str, value: bytes) -> None:
        driver = fed(kept(value=kind), (1, "k", b"1"), (2, "k", value))
        assert [letter.value for letter in driver.dead] == [value]
        assert ask(driver, "topic-t")["offset"] == 0


class TestWindows:
    WINDOWS = kept(latest=False, windows=WindowIndex(field="n", size_ms=10, retention_ms=50, grace_ms=5))

    @pytest.mark.parametrize(
        "value",
        [b"1", b"{}", b'{"n": "1"}', b'{"n": null}', b'{"n": true}', b'{"n": 1e300}', b'{"n": 9007199254740993}'],
    )
    def test_a_value_without_the_number_is_a_dead_letter(self, value: bytes) -> None:
        driver = fed(self.WINDOWS, (1, "k", value))
        assert [letter.value for letter in driver.dead] == [value]
        assert "n" in str(driver.dead[0].error)


def test_a_topic_of_any_name_is_answered_and_documented(loop: Loop) -> None:
    topic = kept(topic="a.b_c-D", range=RangeIndex(retention_ms=1), windows=None)
    driver, topics = fed(topic, (1, "k/ü", b"1")), FixedTopics({topic.topic: 1})
    api = build(driver.app, load(ApiSettings), MemoryReader(driver.store), Freshness(topics, driver.app.topics))
    driver.store.claim(0, load(ApiSettings).advertise, {})
    client = Client(loop.wsgi(api))
    assert client.get("/v1/many?topic-a.b_c-D=k/ü").get_json()["topic-a.b_c-D"]["k/ü"]["value"] == 1
    assert client.get("/v1/topics/a.b_c-D/none/range").status_code == 404
    document = client.get("/openapi.json").get_json()
    validate(document)
    parameters = document["paths"]["/v1/topics/a.b_c-D/{key}/range"]["get"]["parameters"]
    limits = {one["name"]: one["schema"] for one in parameters if one["in"] == "query"}
    assert limits["limit"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    assert set(limits) == {"from", "to", "order", "limit", "cursor"}


# The settings of topics: an error names the place and the reason.

TOPIC = {"topic": "t", "key": "long", "value": "json"}
WINDOWS = {"field": "n", "size_ms": 10, "retention_ms": 20}


def test_topics_are_read_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMSTATE_KEPT", raising=False)
    assert load(KeptSettings).kept == (EXAMPLE,)
    given = [
        {**TOPIC, "windows": WINDOWS},
        {"topic": "u", "key": "text", "value": "bytes", "range": {"retention_ms": 1}},
    ]
    monkeypatch.setenv("STREAMSTATE_KEPT", json.dumps(given))
    first, second = load(KeptSettings).kept
    assert first.windows == WindowIndex(field="n", size_ms=10, retention_ms=20)
    assert (first.latest, first.range, second.value) == (True, None, "bytes")


@pytest.mark.parametrize(
    ("kept", "wrong"),
    [
        ([], "STREAMSTATE_KEPT"),
        ([TOPIC, TOPIC], "more than once"),
        ([{**TOPIC, "key": "short"}], "STREAMSTATE_KEPT.0.key (Input should be 'long', 'int', 'text', '"),
        ([TOPIC, {**TOPIC, "topic": "a b"}], "STREAMSTATE_KEPT.1.topic"),
        ([{**TOPIC, "indexes": []}], "STREAMSTATE_KEPT.0.indexes (Extra inputs are not permitted)"),
        ([{**TOPIC, "latest": False}], "nothing is kept"),
        ([{**TOPIC, "latest": False, "range": {"retention_ms": 1}, "keys": True}], "keys need the last values"),
        ([{**TOPIC, "value": "text", "windows": WINDOWS}], "windows need values of the type json"),
        ([{**TOPIC, "range": {}}], "STREAMSTATE_KEPT.0.range.retention_ms (Field required)"),
        ([{**TOPIC, "windows": {**WINDOWS, "size_ms": 0}}], "STREAMSTATE_KEPT.0.windows.size_ms"),
        ([{**TOPIC, "windows": {**WINDOWS, "advance_ms": 11}}], "advance_ms must be"),
        ([{**TOPIC, "windows": {**WINDOWS, "grace_ms": 11}}], "retention_ms must be at least size_ms + grace_ms"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch, kept: Any, wrong: str) -> None:
    monkeypatch.setenv("STREAMSTATE_KEPT", json.dumps(kept))
    with pytest.raises(Misconfigured, match="change the environment") as caught:
        load(KeptSettings)
    assert wrong in str(caught.value)
