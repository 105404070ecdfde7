"""A release keeps the promises of the release before, and a changed state has another declaration."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from pyspark import cloudpickle

from devkit.registry import SERVICES, app
from streamstate.releases.contract import requirements
from tests.released.documents import STATES, documents, promised, released
from tests.released.states import states

ADVICE = "keep it; or say so in CHANGELOG.md under a new version, and run `python -m tests.released`"


@pytest.fixture(scope="module")
def current() -> dict[str, dict[str, object]]:
    return states()


WORKER = """
import json, sys
from pyspark import cloudpickle
from tests.released.states import state
print(json.dumps({name: state(app) for name, app in cloudpickle.load(sys.stdin.buffer).items()}))
"""


def test_folds_make_the_same_state_in_a_worker_of_spark(current: dict[str, dict[str, object]]) -> None:
    pickled = cloudpickle.dumps({service: replace(app(service), views=()) for service in SERVICES})  # type: ignore[no-untyped-call]
    worked = subprocess.run([sys.executable, "-c", WORKER], input=pickled, capture_output=True, check=False)
    assert worked.returncode == 0, worked.stderr.decode()
    assert json.loads(worked.stdout) == {service: current[service]["state"] for service in SERVICES}


def test_answers_keep_the_paths_parameters_and_members_of_the_release_before() -> None:
    now = promised()
    broken = [
        f"{path} {kept - now.get(path, set())}" for path, kept in released().items() if kept - now.get(path, set())
    ]
    assert not broken, f"{broken[:5]} of the release before: {ADVICE}"


def test_no_path_requires_a_parameter_of_a_query_or_header() -> None:
    assert {line for document in documents().values() for line in requirements(document)} == set()


@pytest.mark.parametrize("service", SERVICES)
def test_another_state_of_the_same_records_has_another_version(service: str, current: dict[str, object]) -> None:
    before = json.loads(STATES.read_text()).get(service)
    assert before == current[service], (
        f"{service} makes another state of the same records: raise Fold.version if its folds are the same, and run "
        "`python -m tests.released`"
        if before and before["folds"] == current[service]["folds"]  # type: ignore[index]
        else f"the folds of {service} changed, and a release before is refused: run `python -m tests.released`"
    )
