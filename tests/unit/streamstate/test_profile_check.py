"""`streamstate profile check`: faults with their line, measures, and the count of the last records."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner, Result

from streamstate.cli.main import app
from streamstate.cli.profiles.declared import Declared
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord

HABITS = Path("services/profile/habits.yaml").read_text()
NOW = 1_790_000_000_000


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """Runs the command for a text, and returns its result."""

    def run(text: str, *options: str, **environment: str) -> Result:
        path = tmp_path / "habits.yaml"
        path.write_text(text)
        given = {f"STREAMSTATE_{name}": value for name, value in environment.items()}
        return CliRunner().invoke(app, ["profile", "check", str(path), *options], env=given)

    return run


def events(*values: object, key: bytes | None = LONG.encode(1)) -> list[RawRecord]:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return [(offset, NOW, key, text) for offset, text in enumerate(texts)]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the topic of the records of each partition."""

    def of(*partitions: Sequence[RawRecord]) -> None:
        def records(_self: Declared, starts: dict[int, int]) -> Iterator[tuple[int, RawRecord]]:
            return iter([(p, record) for p, start in starts.items() for record in partitions[p][start:]])

        sizes = {partition: len(held) for partition, held in enumerate(partitions)}
        monkeypatch.setattr(Declared, "bounds", lambda _self: (dict.fromkeys(sizes, 0), sizes))
        monkeypatch.setattr(Declared, "records", records)
        monkeypatch.setattr(Declared, "findings", lambda _self: [])

    return of


def test_measures_are_one_line_each(check: Any) -> None:
    result = check(HABITS, "--no-kafka")
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "habits: /v1/users/<key>/habits from listening-events"
    assert "genres    top: 5, of: genre, over: 30d ever" in lines
    assert "long      total: durationMs, where: {durationMs: {ge: 30000}}, over: 7d" in lines
    assert lines[-1] == "no records counted: --no-kafka"


def test_rules_are_one_line_each_with_their_windows(check: Any) -> None:
    rules = "rules: {busy: {when: {plays: {gt: 50}}, over: 1h, cooldown: 6h}, long_day: {when: {long: {ge: 9}}}}\n"
    lines = [line.rstrip() for line in check(HABITS + rules, "--no-kafka").stdout.splitlines()]
    assert "busy      when: {plays: {gt: 50}}, cooldown: 6h, over: 1h" in lines
    assert "long_day  when: {long: {ge: 9}}, over: 7d" in lines


def test_no_answer_from_kafka_is_status_4_with_the_measures(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_self: Declared) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, ""))

    monkeypatch.setattr(Declared, "bounds", away)
    result = check(HABITS, "--json", KAFKA="kafka.away:9092")
    assert result.exit_code == 4, result.output
    answer = json.loads(result.stdout)
    assert answer["dry_run"] is None
    assert "kafka.away:9092" in answer["skipped"]
    assert list(answer["measures"]) == ["plays", "devices", "genres", "artists", "long", "lastSeen"]


def test_records_are_counted_by_measure_field_and_reason(check: Any, topic: Any) -> None:
    good = {"artistId": 1, "device": "phone", "genres": "folk", "durationMs": 30_000}
    bad = [{"artistId": "secret"}, b"{", {"artistId": None}]
    topic(events(good, *bad), events(good, key=b"secret"), [])
    answer = json.loads(check(HABITS, "--json").stdout)["dry_run"]
    assert answer["records"] == 5
    assert answer["refused"] == {
        "Expected `int | null`, got `str` - at `$.artistId`": 1,
        "Input data was truncated": 1,
        "the key must be of type long in 8 bytes, big-endian": 1,
    }
    assert answer["measures"] == {"plays": 2, "devices": 1, "genres": 0, "artists": 1, "long": 1, "lastSeen": 2}
    fields = {name: [of["type"], of["events"], of["nearest"], of["absent"]] for name, of in answer["fields"].items()}
    assert fields["genre"] == ["str", 0, "genres", True]
    assert fields["trackId"] == ["int", 0, "", True]
    assert fields["device"] == ["str", 1, "", False]
    shown = check(HABITS).stdout
    assert "in no event; did you mean genres?" in shown
    assert "5 records read, of which 3 would be refused" in shown
    assert "secret" not in shown


def test_records_without_a_value_are_counted_and_are_no_fault(check: Any, topic: Any) -> None:
    topic([(offset, NOW, LONG.encode(1), None) for offset in range(3)])
    result = check(HABITS)
    assert result.exit_code == 0, result.output
    assert "3 records have no value, such as tombstones: they are no events" in result.stdout
    assert json.loads(check(HABITS, "--json").stdout)["dry_run"]["nulls"] == 3


def test_a_decimal_with_further_digits_is_advised_to_round(check: Any, topic: Any) -> None:
    topic(events({"price": 0.1 + 0.2}, {"price": 1.25}))
    text = HABITS.replace("fields: {", "fields: {price: decimal(2), ")
    (step,) = json.loads(check(text, "--json").stdout)["dry_run"]["steps"].values()
    assert step.endswith('in the events: declare price: "decimal(2, round)"')
    text = text.replace("decimal(2)", '"decimal(2, round)"')
    assert json.loads(check(text, "--json").stdout)["dry_run"]["fields"]["price"]["events"] == 2


def test_the_last_records_come_of_all_partitions(check: Any, topic: Any) -> None:
    topic(events(*({"trackId": 1} for _ in range(30))), events({"artistId": 1}), [])
    answer = json.loads(check(HABITS, "--json", "--records", "11").stdout)["dry_run"]
    assert answer["records"] == 11
    assert (answer["fields"]["trackId"]["events"], answer["fields"]["artistId"]["events"]) == (10, 1)


def test_formats_of_the_deployment_apply(check: Any, topic: Any) -> None:
    topic([(0, NOW, b"7", json.dumps({"type": {"genre": "folk"}}).encode())])
    formats = '{"listening-events": {"key": "string", "fields": {"genre": "type.genre"}}}'
    answer = json.loads(check(HABITS, "--json", FORMATS=formats).stdout)["dry_run"]
    assert (answer["refused"], answer["measures"]["genres"]) == ({}, 1)


PLAYS = """
name: plays
topic: listening-events
key: KEY
path: /v1/users/<key>/plays
fields: {artistId: str, device: str, price: {type: int, member: paid.price}}
measures: {plays: {count: all}}
"""


@pytest.mark.parametrize(
    ("event", "place", "step"),
    [
        ({"artistId": 7}, "$.artistId", "declare artistId: int"),
        (
            {"paid": {"price": 0.25}},
            "$.paid.price",
            "{type: decimal(2), member: pai",
        ),
        ({"paid": {"price": 0.1 + 0.2}}, "$.paid.price", '{type: "decimal(2, round)", member'),
        ({"artistId": [1]}, "$.artistId", "artistId is a list in the events"),
        ({"paid": {"price": "12"}}, "$.paid.price", "{type: int(text), member"),
    ],
)
def test_a_type_that_refuses_all_is_a_fault_with_the_type_to_declare(
    check: Any, topic: Any, event: dict[str, Any], place: str, step: str
) -> None:
    topic(events(*[{"artistId": "a", "device": "tv", "paid": {"price": 1}} | event] * 3))
    result = check(PLAYS.replace("KEY", "long"))
    assert result.exit_code == 1, result.output
    assert step in result.stdout
    assert "of another type: " in result.stdout
    assert "in refused records alone" in result.stdout
    assert "3 of 3 records would be refused" in result.stdout
    answer = json.loads(check(PLAYS.replace("KEY", "long"), "--json").stdout)["dry_run"]
    [(said, next_step)] = answer["steps"].items()
    assert said.endswith(f" - at `{place}`")
    assert step in next_step


@pytest.mark.parametrize(
    ("declared", "key", "step"),
    [
        ("long", b"anna", "readable as text and int: declare key: text or key: int"),
        ("int", b"user-001", "readable as text and long"),
        ("int", LONG.encode(1), "readable as long: declare key: long"),
        ("uuid", LONG.encode(1), "readable as long: declare key: long"),
        ("long", b"17", "readable as digits and text"),
        ("long", b"a:7", "readable as pair and text"),
        ("long", None, "the producer must write the key"),
        ("long", b"\xff", "no type but bytes reads all"),
    ],
)
def test_a_key_type_that_refuses_all_is_a_fault_with_the_readable_types(
    check: Any, topic: Any, declared: str, key: bytes | None, step: str
) -> None:
    topic(events({"artistId": "a", "device": "tv", "paid": {"price": 1}}, key=key))
    result = check(PLAYS.replace("KEY", declared))
    assert result.exit_code == 1, result.output
    assert step in result.stdout


@pytest.mark.parametrize(
    ("declared", "keys", "said"),
    [
        ("text", [LONG.encode(1), LONG.encode(100)], "look like long, not text: declare key: long"),
        ("text", [LONG.encode(1), LONG.encode(2), LONG.encode(200)], "look like long, not text: declare key: long"),
        ("text", [b"\0\0\0\7"], "look like int, not text: declare key: int"),
        ("long", [b"user-001", b"user-002"], "look like text, not long: declare key: text"),
        ("long", [b"12345678"], "look like digits and text, not long: declare key: digits or key: text"),
        ("int", [b"anna"], "look like text, not int: declare key: text"),
        ("text", [b"anna\n", b"anna"], ""),
        ("long", [LONG.encode(1), b"user-001"], ""),
        ("bytes", [LONG.encode(1)], ""),
    ],
)
def test_numbers_read_as_text_and_texts_read_as_numbers_are_a_fault_with_the_line(
    check: Any, topic: Any, declared: str, keys: Sequence[bytes], said: str
) -> None:
    play = {"artistId": "a", "device": "tv", "paid": {"price": 1}}
    topic([(offset, NOW, key, json.dumps(play).encode()) for offset, key in enumerate(keys)])
    result = check(PLAYS.replace("KEY", declared))
    assert result.exit_code == (1 if said else 0), result.output
    answer = json.loads(check(PLAYS.replace("KEY", declared), "--json").stdout)
    assert answer["dry_run"]["keys"].endswith(said)
    assert len(answer["faults"]) == bool(said)
    assert all(f"habits.yaml:4: the sampled keys {said}" in fault for fault in answer["faults"])


def test_a_field_in_no_event_is_a_fault_and_a_minority_of_refused_records_is_none(check: Any, topic: Any) -> None:
    good = {"artistId": "a", "device": "tv", "paid": {"price": 1}}
    topic(events(good, good, {**good, "artistId": 1}))
    result = check(PLAYS.replace("KEY", "long"))
    assert result.exit_code == 0, result.output
    assert "several types in the events (str 2, int 1): correct the producer" in result.stdout
    result = check(PLAYS.replace("KEY", "long").replace("device", "devise"))
    assert result.exit_code == 1, result.output
    assert "in no event; did you mean device?" in result.stdout
    assert "the field devise is in no event: correct its name" in result.stdout
    topic([])
    assert check(PLAYS.replace("KEY", "long").replace("device", "devise")).exit_code == 0


def test_the_file_alone_needs_no_package_of_services(check: Any) -> None:
    result = check(HABITS, "--no-kafka", PACKAGE="absent_services")
    assert result.exit_code == 0, result.output
    result = check(HABITS, PACKAGE="absent_services")
    assert result.exit_code == 3
    assert "the package absent_services is not installed here; run the command" in result.stderr


@pytest.mark.parametrize(
    ("path", "reason", "free"),
    [
        ("/v1/users/<key>/metrics", "the service metrics answers at /v1/users/<key>/metrics", "/v1/users/<key>/plays"),
        ("/v1/users/<key>/recommendations", "the service recommendations answers at", "/v1/users/<key>/plays"),
        ("/v1/users/<key>", "the service gateway answers at /v1/users/<key>", "/v1/users/<key>/plays"),
        ("/v1/users/<key>/stream", "the service gateway answers at", "/v1/users/<key>/plays"),
        ("/v1/system", "the service gateway answers at /v1/system", "/v1/plays-profile"),
        ("/v1/route/<key>/plays", "the service gateway answers at", "/v1/plays-profile/<key>/measures"),
        ("/healthz", "the gateway answers no path but below /v1/", "/v1/healthz"),
        ("/metrics/<key>", "the gateway answers no path but below /v1/", "/v1/metrics/<key>"),
    ],
)
def test_a_path_of_the_gateway_or_another_service_is_a_fault(check: Any, path: str, reason: str, free: str) -> None:
    result = check(PLAYS.replace("KEY", "long").replace("/v1/users/<key>/plays", path), "--no-kafka")
    assert result.exit_code == 3, result.output
    assert f"habits.yaml:5: {reason}" in result.stderr
    assert result.stderr.endswith(f"; write another path, such as {free}\n")
    assert len(result.stderr.splitlines()) == 1
    assert check(PLAYS.replace("KEY", "long").replace("/v1/users/<key>/plays", free), "--no-kafka").exit_code == 0


def test_a_key_from_the_value_is_read_without_the_topic_of_the_keys(check: Any, topic: Any, tmp_path: Path) -> None:
    text = HABITS.replace("key: long", "key: value.userId").replace("fields: {", "fields: {userId: int, ")
    values = [{"userId": user, "artistId": 1} for user in (1, 2, 1)]
    topic(events(*values, {"artistId": 1}, {"userId": "secret"}, {"userId": 1, "artistId": "a"}, key=None), [])
    answer = json.loads(check(text, "--json").stdout)
    assert answer["topic"] == "listening-events"
    assert (answer["dry_run"]["records"], answer["dry_run"]["measures"]["plays"]) == (6, 3)
    assert answer["dry_run"]["refused"] == {
        "the member userId is missing or null": 1,
        "Expected `int | null`, got `str` - at `$.userId`": 1,
        "Expected `int | null`, got `str` - at `$.artistId`": 1,
    }
    declared = Declared.of(tmp_path / "habits.yaml", alone=True)
    keys = [LONG.encode(user) for user in (1, 2, 1, 1)]
    found = [*declared.keyed({0: 0, 1: 0}, [0, 1])]
    assert sorted(record[2] or b"" for _, record in found) == sorted(keys)
    for partition in (0, 1):
        own = [record for place, record in found if place == partition]
        assert [record[0] for record in own] == [*range(len(own))]
        assert {partition_of(record[2] or b"", 2) for record in own} <= {partition}
