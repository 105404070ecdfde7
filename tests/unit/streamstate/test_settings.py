"""Settings: from where, and what an error says."""

import os
from pathlib import Path
from typing import Any

import pytest

from streamstate.errors import Misconfigured
from streamstate.settings import ApiSettings, GatewaySettings, StreamSettings, load

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
