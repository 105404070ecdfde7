"""docs/rules.md: its file sends the record as written."""

import json
import re
from pathlib import Path

import msgspec

from services.gateway.streams.crossings import event
from streamstate.keys import LONG
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver

BLOCKS = dict(
    re.findall(r"^```(yaml|json|python|text)\n(.*?)^```$", Path("docs/rules.md").read_text(), re.DOTALL | re.MULTILINE)
)
NOW, MINUTE_MS = 1_795_680_000_000, 60_000


def binged() -> Driver:
    driver = Driver(profile_app(parse(BLOCKS["yaml"])), MemoryStore())
    raw = [(number, NOW - (50 - number) * MINUTE_MS, LONG.encode(1), b"{}") for number in range(51)]
    driver.feed(0, {"listening-events": raw})
    return driver


def test_the_record_is_as_shown() -> None:
    driver = binged()
    (emit,) = driver.emitted
    assert (emit.topic, emit.key) == ("alarms-rules", LONG.encode(1))
    assert msgspec.json.decode(emit.value) == json.loads(BLOCKS["json"])


def test_the_event_is_as_shown() -> None:
    driver = binged()
    [crossing] = msgspec.to_builtins(driver.view("alarms-rule-binge"))["crossings"]
    # Kafka gives a topic an id, the driver its name.
    shown = re.sub("; id=.*", "; id=listening-events", BLOCKS["text"])
    assert event(crossing).encoded.decode() == f"{shown}\n"


def test_the_webhook_is_short() -> None:
    compile(BLOCKS["python"], "docs/rules.md", "exec")
    assert len(BLOCKS["python"].splitlines()) <= 30
