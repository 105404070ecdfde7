"""Rules of a profile send what a count by hand sends, however the records are divided into batches."""

import time
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.keys import LONG
from streamstate.profile import Profile, count, profile_app, total
from streamstate.profile.file import parse
from streamstate.profile.measure import BadDeclaration
from streamstate.profile.rules import crossings
from streamstate.profile.rules.sliding import Sliding
from streamstate.profile.windows.histories import WindowMeasure
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests import reference_profile

MINUTE_MS = 60_000
YAML = """
name: alarms
topic: plays
key: long
path: /v1/users/<key>/alarms
fields: {ms: int}
measures:
  plays: {count: all, over: [1h, ever]}
  listened: {total: ms, where: {ms: {gt: 0}}, over: 30m}
rules:
  binge: {when: {plays: {gt: 3}}, over: 1h, cooldown: 40m}
  long: {when: {listened: {ge: 10}}}
  tenth: {when: {plays: {eq: 5}}, over: ever}
"""


class Alarms(
    Profile,
    topic="plays",
    path="/v1/users/<key>/alarms",
    fields={"ms": "int"},
    rules={
        "binge": {"when": {"plays": {"gt": 3}}, "over": "1h", "cooldown": "40m"},
        "long": {"when": {"listened": {"ge": 10}}},
        "tenth": {"when": {"plays": {"eq": 5}}, "over": "ever"},
    },
):
    plays = count(over=["1h", "ever"])
    listened = total("ms", where={"ms": {"gt": 0}}, over="30m")


Play = tuple[int, int, int]
"""User, minute, and the member `ms`."""

plays = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 120), st.integers(-2, 5)), max_size=40)


def by_hand(played: list[Play]) -> list[tuple[int, dict[str, Any]]]:
    """Offset and value of each record that the rules send."""
    sent: list[tuple[int, dict[str, Any]]] = []
    held: dict[tuple[int, str], bool] = {}
    last: dict[tuple[int, str], int] = {}
    for offset, (user, _, _) in enumerate(played):
        mine = [play for play in played[: offset + 1] if play[0] == user]
        now = max(minute for _, minute, _ in mine)
        values: Mapping[str, tuple[int, bool]] = {
            "binge": (hour := sum(now - 60 <= minute for _, minute, _ in mine), hour > 3),
            "long": (ms := sum(max(0, each) for _, minute, each in mine if now - 30 <= minute), ms >= 10),
            "tenth": (len(mine), len(mine) == 5),
        }
        for rule, (value, holds) in values.items():
            cooled = rule != "binge" or (user, rule) not in last or now - last[user, rule] >= 40
            if holds and not held.get((user, rule)) and cooled:
                last[user, rule] = now
                sent.append((offset, {"rule": rule, "key": user, "value": value, "at": now * MINUTE_MS}))
            held[user, rule] = holds
    return sent


def fed(played: list[Play], cuts: list[int]) -> Driver:
    driver = Driver(profile_app(parse(YAML)), MemoryStore())
    raw = [
        (offset, minute * MINUTE_MS, LONG.encode(user), msgspec.json.encode({"ms": ms}))
        for offset, (user, minute, ms) in enumerate(played)
    ]
    for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        if begin < end:
            driver.feed(0, {"plays": raw[begin:end]})
    return driver


@settings(max_examples=150)
@given(plays, st.lists(st.integers(0, 40), max_size=5).map(sorted))
def test_a_value_that_crosses_its_line_is_sent_once(played: list[Play], cuts: list[int]) -> None:
    driver = fed(played, [min(cut, len(played)) for cut in cuts])
    sent = [(emit.cause.offset, msgspec.json.decode(emit.value)) for emit in driver.emitted]
    assert sent == by_hand(played)
    assert all(emit.key == LONG.encode(emit.cause.key) for emit in driver.emitted)
    assert {emit.topic for emit in driver.emitted} <= {"alarms-rules"}


@settings(max_examples=50)
@given(plays, st.lists(st.integers(0, 40), max_size=5).map(sorted))
def test_the_crossings_of_the_last_records_are_kept(played: list[Play], cuts: list[int]) -> None:
    kept = 9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossings, "KEPT", kept)
        driver = fed(played, [min(cut, len(played)) for cut in cuts])
        sent = [each for each in by_hand(played) if each[0] >= len(played) - 1 - kept]
        for rule in ("binge", "long", "tenth"):
            answer = msgspec.to_builtins(driver.view(f"alarms-rule-{rule}"))
            expected = [{**of, "id": f"plays:0={offset + 1}; id=plays"} for offset, of in sent if of["rule"] == rule]
            assert answer["crossings"] == expected


MEASURES = ("count: all", "count: ms", "total: ms", "least: ms", "most: ms", "distinct: ms", "sessions: 7m")
EVENTS = st.lists(st.tuples(st.integers(0, 200), st.none() | st.integers(-2, 5)), max_size=60)


@settings(max_examples=200)
@given(st.sampled_from(MEASURES), EVENTS, st.integers(0, 60))
def test_a_value_that_is_kept_up_by_event_is_the_value_of_the_window(
    words: str, events: list[tuple[int, int | None]], held: int
) -> None:
    fields, _, _ = YAML.partition("measures:")
    declared = parse(f"{fields}measures: {{a: {{{words}, where: {{ms: {{lt: 4}}}}, over: 30m}}}}")
    rows: list[list[Any]] = [[minute * MINUTE_MS, ms] for minute, ms in events]
    now = max((at for at, _ in rows[:held]), default=0)
    sliding = Sliding(WindowMeasure(declared.resolved[0], declared), sorted(rows[:held], key=itemgetter(0)))
    for number, row in enumerate(rows[held:], held + 1):
        now = max(now, row[0])
        if row[0] >= (begin := now - 30 * MINUTE_MS):
            sliding.add(row)
        window: list[reference_profile.Event] = [
            {"timestamp": at, "offset": 0, "ms": ms} for at, ms in rows[:number] if at >= begin
        ]
        counted = [event for event in window if event["ms"] is not None and event["ms"] < 4]
        assert sliding.value(begin) == reference_profile.value(yaml.safe_load(words), counted)


@pytest.mark.parametrize("measure", ["{total: ms, over: 1h}", "{count: ms, over: 1h}", "{least: ms, over: 1h}"])
def test_a_fold_does_not_cost_the_square_of_a_busy_key(measure: str) -> None:
    declared = parse(
        f"{YAML.partition('measures:')[0]}measures: {{a: {measure}}}\nrules: {{b: {{when: {{a: {{gt: 0}}}}}}}}"
    )

    def seconds(number: int) -> float:
        raw = [(offset, offset, LONG.encode(1), b'{"ms": %d}' % (offset % 100)) for offset in range(number)]
        driver, begun = Driver(profile_app(declared), MemoryStore()), time.process_time()
        driver.feed(0, {"plays": raw})
        return time.process_time() - begun

    assert seconds(20_000) < 100 * min(seconds(1_000) for _ in range(3))


def test_a_class_has_the_same_rules() -> None:
    assert Alarms.declared.state == parse(YAML).state
    assert Alarms.app.outputs == ("alarms-rules", "alarms-dlq")


def test_a_profile_without_rules_has_no_state_and_no_topic_of_them() -> None:
    app = profile_app(parse(YAML.partition("rules:")[0]))
    assert app.outputs == ("alarms-dlq",)
    driver = Driver(app, MemoryStore())
    driver.feed(0, {"plays": [(0, 1, LONG.encode(1), b"{}")]})
    assert not driver.emitted
    assert not [*app.folds[0].reads([])]


FAULTS = {
    "binge: {when: {play: {gt: 3}}}": "there is no measure play; did you mean plays?",
    "binge: {when: {plays: {gt: 3}}}": "plays is over 1h, ever; name one, such as over: 1h",
    "binge: {when: {plays: {gt: 3}}, over: 7d}": "plays is over 1h, ever; name one, such as over: 1h",
    "binge: {when: {plays: {over: 3}}, over: 1h}": "there is no comparison over",
    "binge: {when: {plays: {gt: many}}, over: 1h}": "'many' is no int",
    "binge: {when: {}}": "a rule compares one measure, such as when: {plays: {gt: 50}}",
    "binge: {when: {plays: {gt: 3}}, over: 1h, cooldown: long}": "'long' is no duration",
    "binge: {when: {plays: {gt: 3}}, over: 1h, cool: 1h}": "there is no member cool; did you mean cooldown?",
    "stream: {when: {plays: {gt: 3}}, over: 1h}": "stream ends the paths of streams of rules: give the rule another",
    "a-b: {when: {plays: {gt: 3}}, over: 1h}": "a-b: a rule has letters, digits and _",
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_names_the_way_out(rule: str) -> None:
    with pytest.raises(BadDeclaration) as error:
        parse(f"{YAML.partition('rules:')[0]}rules:\n  {rule}\n")
    assert FAULTS[rule] in error.value.reason


@pytest.mark.parametrize("measure", ["{top: 3, of: ms}", "{mean: ms}", "{count: all, by: ms}", "{distinct: ms}"])
def test_a_rule_needs_one_number(measure: str) -> None:
    fields, _, _ = YAML.partition("measures:")
    with pytest.raises(BadDeclaration):
        parse(f"{fields}measures: {{a: {measure}}}\nrules: {{b: {{when: {{a: {{gt: 3}}}}}}}}\n")
