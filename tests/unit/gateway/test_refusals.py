"""What is refused costs no more than a read, and is charged to its caller."""

import json
from typing import Any

import pytest

from streamstate.gateway import READ
from streamstate.web.http.request import MOST_PARAMETERS
from tests.unit.gateway.deployment import USER
from tests.unit.gateway.guarding import Guarded, problem

TOO_MANY_KEYS = json.dumps({"metrics": [1] * 30_000}).encode()
TOO_MANY_NAMES = json.dumps({str(name): [] for name in range(10_000)}).encode()
MALFORMED = b'{"metrics": [' + b"1," * 40_000


def left(guarded: Guarded) -> dict[str, int]:
    """The tokens of the caller, by limit, before a read."""
    answer = guarded.get(f"/v1/users/{USER}/metrics", guarded.keys[READ])
    assert answer.status_code == 200
    parts = (each.strip().partition(";r=") for each in answer.headers["RateLimit"].split(","))
    return {name.strip('"'): int(rest.partition(";")[0]) for name, _, rest in parts}


@pytest.mark.parametrize("guarded", [{"requests_per_s": 50, "cost_per_s": 50}], indirect=True, ids=["fifty a second"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nowhere/1", 404),
        ("GET", "/nowhere", 404),
        ("POST", "/v1/system", 405),
        ("DELETE", "/v1/many", 405),
        ("GET", f"/v1/users/{USER}/metrics?strange=1", 400),
        ("GET", "/v1/many", 400),
        ("GET", f"/v1/route/metrics/{'x' * 30}", 403),
    ],
)
def test_each_refusal_is_a_request_of_its_caller(guarded: Guarded, method: str, path: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {guarded.keys[READ]}"}
    answers = [guarded.client.open(path, method=method, headers=headers).status_code for _ in range(100)]
    assert set(answers) == {status, 429}


@pytest.mark.parametrize("body", [TOO_MANY_KEYS, TOO_MANY_NAMES, MALFORMED], ids=["keys", "names", "malformed"])
def test_a_body_that_is_refused_is_charged_by_its_length(guarded: Guarded, body: bytes) -> None:
    before = left(guarded)["cost"]
    headers: dict[str, Any] = {"Authorization": f"Bearer {guarded.keys[READ]}", "Content-Type": "application/json"}
    told = problem(guarded.client.post("/v1/many", data=body, headers=headers), 400)
    assert len(told["detail"]) < 500
    assert before - left(guarded)["cost"] >= len(body) // 16_384


@pytest.mark.parametrize("path", ["/v1/many", f"/v1/users/{USER}/metrics", "/v1/nowhere/1"])
def test_a_query_has_a_bounded_number_of_parameters(guarded: Guarded, path: str) -> None:
    query = "&".join(["metrics=1"] * (MOST_PARAMETERS + 1))
    status = 404 if "nowhere" in path else 400
    told = problem(guarded.get(f"{path}?{query}", guarded.keys[READ]), status)
    if status == 400:
        assert f"at most {MOST_PARAMETERS} parameters" in told["detail"]
