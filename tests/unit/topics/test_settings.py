"""What is kept of which topic: an error names the place and the reason."""

import json
from typing import Any

import pytest

from services.topics.settings import EXAMPLE, KeptSettings, WindowIndex
from streamstate.errors import Misconfigured
from streamstate.settings import load

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
