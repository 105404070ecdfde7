"""Settings: from where, and what an error says."""

import os
from pathlib import Path
from typing import Any

import pytest

from services.clicks.model import APP as CLICKS
from services.events import LISTENING_EVENTS
from services.gateway.settings import GatewaySettings
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.names.model import ENRICHED
from streamstate.deployment.address import Address
from streamstate.deployment.overrides import renamed
from streamstate.errors import Misconfigured
from streamstate.settings import ApiSettings, StreamSettings, load
from streamstate.state.redis_connections import SentinelUrl
from streamstate.web.client.instances import same_service

KINDS = (StreamSettings, ApiSettings, GatewaySettings)


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("STREAMSTATE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def given(**values: Any) -> ApiSettings:
    """Settings by arguments in code."""
    return ApiSettings(**values)


def test_a_timestamp_may_be_ahead_by_the_grace_of_the_windows_unless_the_deployment_says_otherwise() -> None:
    default, given_one = StreamSettings.model_validate({}), StreamSettings.model_validate({"future_ms": 5})
    assert [default.tolerance_ms(grace) for grace in (None, 60_000, 0)] == [3_600_000, 60_000, 10_000]
    assert [given_one.tolerance_ms(grace) for grace in (None, 60_000, 0)] == [5, 5, 5]


def test_a_variable_beats_the_default_and_an_argument_beats_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_DEADLINE_MS", "300")
    assert load(ApiSettings).deadline_ms == 300
    assert given(deadline_ms=400).deadline_ms == 400


@pytest.mark.parametrize("redis", ["redis://127.0.0.1:6379/0", "redis+cluster://127.0.0.1:6379,[::1]:6380/"])
def test_replicas_are_read_of_sentinels_only(redis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_REDIS_REPLICAS", "true")
    monkeypatch.setenv("STREAMSTATE_REDIS", redis)
    with pytest.raises(Misconfigured, match="only where REDIS names Sentinels"):
        load(ApiSettings)
    monkeypatch.setenv("STREAMSTATE_REDIS", "redis+sentinel://a,b/profiles")
    assert load(ApiSettings).redis_replicas


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("REDIS", "localhost:6379", "give the URL of Redis or Valkey: redis://host:port/db, "),
        ("ADVERTISE", "localhost", "give the host:port of this instance's API"),
        ("NAME", "My name", "takes only the characters a-z0-9-"),
        ("GROUP", "a b", "takes only the characters A-Za-z0-9._-"),
        ("DELETIONS", "a b", "takes only the characters A-Za-z0-9._-"),
        ("INSTANCES", '{"metrics": "a"}', 'give the instances by service: {"metrics": "a:8101,b:8101"}'),
        ("KAFKA_PROPERTIES", '{"a b": 1}', "takes only the characters a-z0-9._"),
        ("DRIVER_MEMORY", "5", "give the heap of the Spark driver"),
    ],
)
def test_a_value_of_another_form_is_told_without_a_regular_expression(
    name: str, value: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"STREAMSTATE_{name}", value)
    kind = next(kind for kind in KINDS if name.lower() in kind.model_fields)
    with pytest.raises(Misconfigured) as refused:
        load(kind)
    assert f"STREAMSTATE_{name}" in str(refused.value)
    assert advice in str(refused.value)
    assert not {"^", "\\"} & {*str(refused.value)}


def test_what_kubernetes_injects_for_a_service_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS", "tcp://10.0.0.1:6379")
    monkeypatch.setenv("REDIS_PORT", "tcp://10.0.0.1:6379")
    monkeypatch.setenv("KAFKA", "tcp://10.0.0.1:9092")
    assert load(ApiSettings) == given(redis="redis://127.0.0.1:6379/0", kafka="127.0.0.1:9092")


@pytest.mark.parametrize(
    ("kind", "variable", "value"),
    [
        (ApiSettings, "STREAMSTATE_DEADLINE_MS", "soon"),
        (ApiSettings, "STREAMSTATE_DEADLINE_MS", "5"),
        (ApiSettings, "STREAMSTATE_ADVERTISE", "http://here:80"),
        (ApiSettings, "STREAMSTATE_ADVERTISE", "here"),
        (ApiSettings, "STREAMSTATE_REDIS_TIMEOUT_S", "0"),
        (ApiSettings, "STREAMSTATE_REDIS", "redis://here:port/0"),
        (ApiSettings, "STREAMSTATE_REDIS", "redis://here:1,there:1/0"),
        (ApiSettings, "STREAMSTATE_REDIS", "redis+cluster://here:1,there:port"),
        (StreamSettings, "STREAMSTATE_SLOTS", "65"),
        (StreamSettings, "STREAMSTATE_BATCH_RECORDS", "many"),
        (GatewaySettings, "STREAMSTATE_OWNERS_TTL_S", "-1"),
        (GatewaySettings, "STREAMSTATE_INSTANCES", "a:8101"),
        (GatewaySettings, "STREAMSTATE_INSTANCES", "[]"),
        (GatewaySettings, "STREAMSTATE_INSTANCES", '{"metrics": "::1:8101"}'),
        (GatewaySettings, "STREAMSTATE_LISTEN", "::1:8080"),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_its_variable(
    kind: type[ApiSettings | StreamSettings | GatewaySettings],
    variable: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(Misconfigured, match=rf"change the environment: .*\b{variable}\b"):
        load(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_described(kind: type[ApiSettings | StreamSettings | GatewaySettings]) -> None:
    assert all(field.description for field in kind.model_fields.values())


# Addresses of servers, host:port.

ADDRESSES = {
    "here:80": ("here", 80, True),
    "127.0.0.1:8101": ("127.0.0.1", 8101, False),
    "[::1]:8101": ("::1", 8101, False),
    "[fe80::1%eth0]:1": ("fe80::1%eth0", 1, False),
    "metrics-0.metrics.svc:8080": ("metrics-0.metrics.svc", 8080, True),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_read_and_written(text: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.is_name) == ADDRESSES[text]
    assert str(address) == text


@pytest.mark.parametrize("text", ["here", "::1:80", "[::1]", "http://here:80", "here:", ":80", "[here]:80", "a:b:80"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        Address.parse(text)


def test_sentinels_may_have_addresses_of_ipv6() -> None:
    watched = SentinelUrl.parse("redis+sentinel://[::1]:5000,here,[fd00::2]/main/3")
    assert watched.sentinels == [("::1", 5000), ("here", 26379), ("fd00::2", 26379)]


def test_addresses_of_ipv4_in_ipv6_are_no_domain() -> None:
    assert not same_service("[::ffff:10.0.0.1]:80", "[::ffff:11.0.0.1]:80")
    assert same_service("[::1]:80", "[::1]:81")
    assert same_service("metrics-0.pods:80", "metrics-1.pods:80")


# A second deployment of an app, over topics of its own.


def test_another_deployment_shares_nothing_with_the_first() -> None:
    other = renamed(METRICS, "metrics-eu", {LISTENING_EVENTS: "listening-events-eu"})
    assert (other.name, other.group, other.topics) == ("metrics-eu", "metrics-eu", ("listening-events-eu",))
    assert other.dead_letters == "metrics-eu-dlq"
    assert {view.topic for view in other.views if view.topic} == {"listening-events-eu"}
    assert (METRICS.name, METRICS.group, METRICS.topics) == ("metrics", "metrics", (LISTENING_EVENTS,))


def test_every_topic_can_have_another_name() -> None:
    own = (*NAMES.topics, ENRICHED, NAMES.dead_letters)
    other = renamed(NAMES, "", {topic: f"eu.{topic}" for topic in own}, "teams.names")
    assert (*other.topics, other.output(ENRICHED), other.dead_letters) == tuple(f"eu.{topic}" for topic in own)
    assert other.tables == ("eu.artists", "eu.albums", "eu.tracks")
    assert (other.name, other.group) == ("names", "teams.names")
    (totals,) = renamed(CLICKS, "", {"clicks-per-region": "eu.clicks"}).totals
    assert totals.topic == "eu.clicks"


def test_a_topic_that_the_app_has_not_is_refused() -> None:
    with pytest.raises(Misconfigured, match="metrics has no topic users; it has listening-events, metrics-dlq"):
        renamed(METRICS, "", {"users": "people"})


def test_two_topics_of_an_app_are_two() -> None:
    with pytest.raises(Misconfigured, match="names albums for several topics of names"):
        renamed(NAMES, "", {"artists": "albums"})


def test_two_deployments_do_not_write_into_one_topic() -> None:
    with pytest.raises(Misconfigured, match=r'TOPICS, such as {"clicks-per-region": "clicks-eu-clicks-per-region"}'):
        renamed(CLICKS, "clicks-eu", {})
