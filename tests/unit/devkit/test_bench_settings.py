"""Which parts of the bench run."""

import pytest

from devkit.bench.settings import BenchSettings
from streamstate.errors import Misconfigured
from streamstate.settings import load


def test_everything_runs_unless_parts_are_named() -> None:
    assert BenchSettings.model_validate({"only": ""}).runs("watchers")


def test_a_step_runs_when_one_of_its_parts_is_named() -> None:
    settings = BenchSettings.model_validate({"only": "reads,access"})
    assert settings.runs("freshness", "reads")
    assert not settings.runs("overload", "ingest")


def test_an_unknown_part_is_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLY", "reads,speed")
    with pytest.raises(Misconfigured, match="there is no part speed; choose from ingest, reads"):
        load(BenchSettings)
