"""docs/profile.md: its file, class, answers, faults and refusal are as written."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from typer.testing import CliRunner

from devkit.events.records import detailed_event
from streamstate.app import App
from streamstate.cli.main import app as command
from streamstate.errors import Misconfigured
from streamstate.keys import LONG
from streamstate.processing.fitness import require_same_folds
from streamstate.profile import Profile, profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.file import parse
from streamstate.profile.indexes.views import CountKeys, FindKeys
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin
from streamstate.testing import Driver
from streamstate.web.http.parameters import parse as parse_query

PAGE = Path("docs/profile.md").read_text()
FENCED = re.findall(r"^```(yaml|json|python)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
BLOCKS = dict(reversed(FENCED))
"""The first block of each language."""
TEXTS = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
TOPIC = "listening-events"
NOW, MINUTE_MS = 1_795_680_000_000, 60_000
LINES = 12


@pytest.fixture(scope="module")
def driver() -> Driver:
    """The plays of the page."""
    plays = [(7, "phone", 240, 6 * 24 * 60), (7, "radio", 100, 30), (3, "phone", 200, 0)]
    driver = Driver(profile_app(parse(BLOCKS["yaml"])), MemoryStore())
    raw = []
    for offset, (artist, device, seconds, ago) in enumerate(plays):
        value = json.dumps({"artistId": artist, "device": device, "durationMs": 1_000 * seconds}).encode()
        raw.append((offset, NOW - ago * MINUTE_MS, LONG.encode(1), value))
    driver.feed(0, {TOPIC: raw})
    assert not driver.dead
    return driver


def asked(driver: Driver, at: int) -> Any:
    return json.loads(msgspec.json.encode(driver.view("evenings", 1, Moment(at))))


def test_the_list_has_the_members_of_a_play() -> None:
    rows = re.findall(r"^- (`.*?): (?:int|str|time\(ms\))", PAGE, re.MULTILINE)
    _, value = detailed_event(1, 2, 3, 4, 5)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == list(json.loads(value))


def test_the_file_is_as_short_as_promised() -> None:
    assert len(BLOCKS["yaml"].splitlines()) <= LINES


def test_the_answer_is_as_shown(driver: Driver) -> None:
    assert asked(driver, NOW) == json.loads(BLOCKS["json"])


def test_a_moment_of_the_past_is_as_said(driver: Driver) -> None:
    [at] = map(int, re.findall(r"\?at=(\d+)", PAGE))
    assert asked(driver, at)["plays"] == {"1h": 1, "7d": 2, "ever": 3}


def test_users_are_found_as_shown(driver: Driver) -> None:
    """Each request with its answer, in the order of the page."""
    kinds: dict[str, type[msgspec.Struct]] = {"find": FindKeys, "count": CountKeys}
    requests = re.findall(r"/v1/users/evenings/(find|count)(?:/stream)?\?(.*)'", PAGE)
    answers = [json.loads(text) for text in re.findall(r'`({"[^`]*})`', PAGE)]
    assert len(requests) == len(answers) == 3
    for (name, query), expected in zip(requests, answers, strict=True):
        asked = parse_query(kinds[name], parse_qsl(f"{query}&at={NOW}"))
        assert json.loads(msgspec.json.encode(driver.view(f"evenings-{name}", query=asked))) == expected


def test_the_file_is_valid_and_a_fault_is_as_shown(tmp_path: Path) -> None:
    path = tmp_path / "evenings.yaml"
    for word, status, said in (("artistId", 0, ""), ("artist", 3, TEXTS[0])):
        path.write_text(BLOCKS["yaml"].replace("of: artistId", f"of: {word}"))
        result = CliRunner().invoke(command, ["profile", "check", str(path), "--no-kafka"])
        assert (result.exit_code, result.stderr.strip().replace(f"{tmp_path}/", "")) == (status, said)


def test_the_class_is_the_same_declaration() -> None:
    made: dict[str, Any] = {}
    exec(compile(BLOCKS["python"], "docs/profile.md", "exec"), made)
    kind: type[Profile] = made["Evenings"]
    assert (kind.declared.state, kind.app.name) == (parse(BLOCKS["yaml"]).state, "evenings")


def refused(before: App, after: App) -> str:
    """The reason why the state of the app `before` is refused by the app `after`; empty if continued."""
    store = MemoryStore()
    store.claim(0, "stream", {TOPIC: 0}, {TOPIC: Origin("id", 1)}, {TOPIC: 0}, before.declarations)
    try:
        require_same_folds(after, [TOPIC], store.read({0: []}).values())
    except Misconfigured as error:
        return str(error)
    return ""


def test_another_measure_is_refused_with_the_ways_out() -> None:
    text = BLOCKS["yaml"]
    present = profile_app(parse(text))
    said = refused(present, profile_app(parse(text.replace("top: 2", "top: 3"))))
    assert said == TEXTS[1]
    assert refused(present, profile_app(parse(text.replace("/evenings", "/late")))) == ""


def test_events_of_one_kind_are_as_said() -> None:
    [_, text, _] = [block for language, block in FENCED if language == "yaml"]
    driver = Driver(profile_app(parse(text)), MemoryStore())
    values = re.findall(r"'1:({.*?})'", PAGE)
    driver.feed(0, {"shop-events": [(n, NOW, LONG.encode(1), value.encode()) for n, value in enumerate(values)]})
    found = json.loads(msgspec.json.encode(driver.view("paid", 1, Moment(NOW))))
    assert (found["orders"]["ever"], found["spent"]["ever"], found["last"]) == (1, 250, 1700000000123)
    assert [letter.offset for letter in driver.dead] == [2]


def test_a_key_from_the_value_is_as_said() -> None:
    [*_, text] = [block for language, block in FENCED if language == "yaml"]
    driver = Driver(profile_app(parse(text)), MemoryStore())
    sent = re.findall(r"'(shop-\d):(\{.*?\})'", PAGE)
    rows = [(offset, NOW, key.encode(), value.encode()) for offset, (key, value) in enumerate(sent)]
    driver.feed(0, {"purchases": rows})
    [topic, _] = driver.app.topics
    assert f"the topic `{topic}`" in PAGE
    driver.feed(0, {topic: [(n, NOW, emit.key, emit.value) for n, emit in enumerate(driver.emitted)]})
    found = json.loads(msgspec.json.encode(driver.view("sales", 1, Moment(NOW))))
    assert (found["orders"]["ever"], found["spent"]["1h"]) == (2, 350)
    [letter] = driver.dead
    assert f"`{letter.error}`" in PAGE
