"""Wrong settings of topics, by the topic's role."""

from collections.abc import Mapping

import pytest

from services.clicks.model import APP as CLICKS
from services.names.model import APP as NAMES
from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.processing.topic_settings import Finding, TopicCheck, require_settings, unbounded
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Allowance, Commit, OffsetAdvance

HOUR_MS, LONG_MAX = 3_600_000, 2**63 - 1
YAML = """
name: sales
topic: bought
key: value.user
path: /v1/users/<key>/sales
fields: {user: int}
measures: {n: {count: all}}
"""
SALES = profile_app(parse(YAML))
KEYED = "bought-by-user-int"
DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": str(HOUR_MS),
    "max.message.bytes": "1048588",
}


def findings(app: App, changes: Mapping[str, Mapping[str, str]], tolerance_ms: int = HOUR_MS) -> list[Finding]:
    check = TopicCheck(app, dict.fromkeys(app.topics, tolerance_ms), "user-deletions", "kafka:9092")
    return check.findings({topic: {**DEFAULTS, **changes.get(topic, {})} for topic in check.topics})


COMPACT = {"cleanup.policy": "compact,delete"}
DELETIONS = {"user-deletions": {"cleanup.policy": "compact"}}


@pytest.mark.parametrize(
    ("topic", "name", "value", "effect", "change"),
    [
        ("bought", "cleanup.policy", "compact", "build", "cleanup.policy=delete"),
        (KEYED, "cleanup.policy", "compact,delete", "build", "cleanup.policy=delete"),
        (KEYED, "message.timestamp.type", "LogAppendTime", "start", "message.timestamp.type=CreateTime"),
        (KEYED, "message.timestamp.before.max.ms", "1000", "nothing", f"message.timestamp.before.max.ms={LONG_MAX}"),
        (KEYED, "message.timestamp.after.max.ms", "1000", "nothing", f"message.timestamp.after.max.ms={HOUR_MS}"),
        (KEYED, "max.message.bytes", "1000", "nothing", "max.message.bytes=1048588"),
        ("sales-dlq", "cleanup.policy", "compact", "nothing", "cleanup.policy=delete"),
        ("user-deletions", "retention.ms", "604800000", "nothing", "cleanup.policy=compact"),
    ],
)
def test_a_wrong_setting_is_found_with_the_command(topic: str, name: str, value: str, effect: str, change: str) -> None:
    [found] = findings(SALES, {topic: {name: value}})
    assert (found.topic, found.effect) == (topic, effect)
    assert f"`kafka-configs.sh --bootstrap-server kafka:9092 --entity-type topics --entity-name {topic}" in found.text
    assert f"--add-config {change}`" in found.text


def test_the_defaults_of_kafka_are_right() -> None:
    assert findings(SALES, DELETIONS) == []
    assert findings(SALES, {"bought": {"message.timestamp.after.max.ms": str(LONG_MAX)}}) == []
    [ahead] = findings(SALES, {"bought": {"message.timestamp.after.max.ms": str(LONG_MAX)}}, 2 * HOUR_MS)
    assert ahead.text.endswith(f"message.timestamp.after.max.ms={2 * HOUR_MS}`")


def test_tables_and_last_values_are_compacted_by_right() -> None:
    tables = dict.fromkeys(("artists", "albums", "tracks", "user-regions", "recommendation-rules"), COMPACT)
    assert findings(NAMES, tables) == findings(CLICKS, tables) == []
    assert [found.topic for found in findings(NAMES, {"listening-events": COMPACT})] == ["listening-events"]


def test_settings_that_may_not_be_read_are_said_once() -> None:
    check = TopicCheck(SALES, {}, "", "kafka:9092")
    [found] = check.findings({"bought": {}, KEYED: {}})
    assert found.effect == "nothing"
    assert found.text.startswith(f"the settings of bought, {KEYED} cannot be read: grant DescribeConfigs")
    assert check.findings({}) == []


def test_a_build_is_refused_unless_allowed_and_a_state_goes_on() -> None:
    found, store = findings(SALES, {"bought": COMPACT}), MemoryStore()
    with pytest.raises(Misconfigured, match=r"run `streamstate allow SERVICE bought --reason TEXT`"):
        require_settings(found, {})
    require_settings(found, {}, ["bought"])
    claim = store.claim(0, "a:1", {"bought": 5})
    with pytest.raises(Misconfigured, match="Kafka compacts bought"):
        require_settings(found, store.read({0: []}))
    store.commit(Commit(claim, [OffsetAdvance("bought", None, 1)], []))
    require_settings(found, store.read({0: []}))
    store.claim(1, "a:1", {"bought": 0})
    require_settings(found, store.read({0: [], 1: []}))
    with pytest.raises(Misconfigured):
        require_settings(found, store.read({2: []}))
    store.allow(2, "bought", Allowance(0, "why"))
    require_settings(found, store.read({2: []}))


def test_timestamps_ahead_are_bounded_by_kafka_or_by_the_stream() -> None:
    bounded, arrival = {"message.timestamp.after.max.ms": "1000"}, {"message.timestamp.type": "LogAppendTime"}
    tolerances = dict.fromkeys("abcd", 1_000)
    assert unbounded(tolerances, {"a": bounded, "b": arrival, "c": {}}) == {"c": 1_000, "d": 1_000}
