"""The cost of a request, and refused requests."""

import json
import sys
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest

from services.gateway.names import NameCache
from services.gateway.needs import DEMAND_COST, ReadRoutes, cost_of
from services.gateway.users import Users
from services.recommendations.walks.salsa import WALKS
from streamstate.view import READ, ComparisonCost, Cost
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import MOST_PARAMETERS, PRICED_BYTES, Request, path_of
from streamstate.web.server.openapi import MANY
from streamstate.web.server.route import Needs
from tests.unit.gateway.deployment import PARTITIONS, USER, Services
from tests.unit.gateway.guarding import EXPLORE, MAY, NEEDED, OPEN, Guarded, problem
from tests.waiting import now_s

# What a request needs of its caller.

RECOMMENDED = "/v1/users/42/recommendations"


def needed(deployment: Services, path: str, body: Any = None, **headers: str) -> Needs:
    path, _, query = path.partition("?")
    given = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"path": path, "query_string": query.encode(), "headers": given, "method": "GET", "ids": {}}
    request = Request(scope, path_of(scope), now_s(), 1_000, None if body is None else json.dumps(body).encode())
    owners = deployment.owners()
    owners.now.keyed["albums"].views["albums"].scope = "explore"
    router = deployment.router()
    reads = ReadRoutes(owners, Users(router, NameCache(router, 10)))
    if path == MANY:
        return reads.many(request, {}).needs
    of_user = path.count("/") == 3 and path.startswith("/v1/users/")
    return (reads.user if of_user else reads.view)(request, {"key": path.rpartition("/")[2]}).needs


@pytest.mark.parametrize(
    ("path", "cost"),
    [
        ("/v1/users/42/metrics", 1),
        ("/v1/artists/1", 1),
        ("/v1/plays", 10),
        (f"{RECOMMENDED}/artists", 5),
        (f"{RECOMMENDED}/artists?walks=10&walkLength=10", 5),
        (f"{RECOMMENDED}/artists?walks=100000&walkLength=10", 500),
        (f"{RECOMMENDED}/artists?walks={10 * WALKS}&walkLength=200", 100),
        (f"{RECOMMENDED}/artists?walks={'9' * 30}", 500),
        (f"{RECOMMENDED}/artists?walks=-5&walkLength=many", 5),
        (RECOMMENDED, 15),
        ("/v1/users/42", 1 + 15),
        ("/v1/users/42?parts=metrics", 1),
        ("/v1/users/42?parts=metrics,recent", 2),
        (f"{MANY}?metrics=1&metrics=2&artists=3", 3),
        (f"{MANY}?users=1&users=2&parts=metrics,recent", 4),
    ],
)
def test_the_cost_is_what_is_done(standing: Services, path: str, cost: int) -> None:
    assert needed(standing, path).cost == cost
    assert needed(standing, path, x_max_staleness="100").cost == cost + DEMAND_COST


def test_many_keys_need_the_scope_of_each_view(standing: Services) -> None:
    assert needed(standing, f"{MANY}?artists=1").scopes == {"read"}
    assert needed(standing, f"{MANY}?artists=1&albums=2").scopes == {"read", "explore"}
    assert needed(standing, MANY, {"albums": [2]}).scopes == {"read", "explore"}


@pytest.mark.parametrize(
    ("path", "user"),
    [
        ("/v1/users/42", "42"),
        ("/v1/users/42/recent", "42"),
        (f"{RECOMMENDED}/artists", "42"),
        ("/v1/artists/42", None),
        ("/v1/plays", None),
        ("/v1/metrics/processors", None),
        (f"{MANY}?users=42&parts=recent", "42"),
        (f"{MANY}?metrics=42&users=42", "42"),
        (f"{MANY}?metrics=42&metrics=43", None),
        (f"{MANY}?metrics=42&users=43", None),
        (f"{MANY}?metrics=42&artists=42", None),
        (f"{MANY}?metrics=42&nothing=42", None),
    ],
)
def test_whose_data_it_is_about(standing: Services, path: str, user: str | None) -> None:
    assert needed(standing, path).user == user


# What is refused costs no more than a read, and is charged to its caller.

TOO_MANY = json.dumps({"metrics": [1] * 30_000}).encode()
TOO_MANY_NAMES = json.dumps({str(name): [] for name in range(10_000)}).encode()
MALFORMED = b'{"metrics": [' + b"1," * 40_000


def left(guarded: Guarded) -> dict[str, int]:
    """The tokens of the caller, by limit, before a read."""
    answer = guarded.get(f"/v1/users/{USER}/metrics", guarded.keys[READ])
    assert answer.status_code == 200
    parts = (each.strip().partition(";r=") for each in answer.headers["RateLimit"].split(","))
    return {name.strip('"'): int(rest.partition(";")[0]) for name, _, rest in parts}


@pytest.mark.parametrize("guarded", [{"requests_per_s": 5, "cost_per_s": 50}], indirect=True, ids=["five a second"])
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


@pytest.mark.parametrize("guarded", [{"cost_per_s": 1}], indirect=True, ids=["a read a second"])
def test_nothing_is_answered_before_its_price_is_taken(guarded: Guarded) -> None:
    paths = [path for rule, path in guarded.paths().items() if NEEDED.get(rule) != OPEN]
    refused = ["/nowhere", "/v1" + "/a" * 3_000, "/v1/many", f"/v1/users/{USER}?parts=none", "/v1/users/x"]
    streams = [f"{path}/stream" for rule, path in guarded.paths().items() if rule.startswith("/v1/users/<key>")]
    for reader in chain.from_iterable(guarded.deployment.readers.values()):
        reader.size = 1_000_000 * PRICED_BYTES
    for scope in MAY:
        headers = {"Authorization": f"Bearer {guarded.keys[scope]}"}
        in_debt = "/v1/plays" if scope == EXPLORE else f"/v1/users/{USER}/metrics"
        assert guarded.client.get(in_debt, headers=headers).status_code in (200, 429)
        for path in [*paths, *refused, *streams, "/livez/x", "/v1/users?q=1", "/openapi.json?x=1"]:
            for method in ("GET", "HEAD", "POST", "DELETE"):
                assert guarded.client.open(path, method=method, headers=headers).status_code == 429, (method, path)


def test_what_is_open_asks_no_service(guarded: Guarded) -> None:
    opened = [path for rule, path in guarded.paths().items() if NEEDED.get(rule) == OPEN]
    before = [guarded.get(path).status_code for path in opened]
    for served in chain.from_iterable(guarded.deployment.at.values()):
        served.stop()
    assert [guarded.get(path).status_code for path in opened] == before == [200] * 4


@pytest.mark.parametrize("end", ["", "/", "/metrics", "%2f"])
def test_a_look_up_does_not_cost_more_on_a_longer_path(standing: Services, end: str) -> None:
    directory = standing.owners().now

    def calls(path: str) -> int:
        """The functions that are called: unlike time, they are the same on each machine."""
        number = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal number
            number += event in ("call", "c_call")

        sys.setprofile(count)
        with suppress(Problem):
            directory.find(path)
        sys.setprofile(None)
        assert number
        return number

    short = calls("/v1" + "/a" * 20 + end)
    assert calls("/v1" + "/a" * 4_000 + end) == short


@pytest.mark.parametrize(
    ("where", "cost"),
    [
        (["visits_ever.eq.1"], 20 + 2 * PARTITIONS),
        (["visits_ever.in.1,2,3"], 20 + 3 * 2 * PARTITIONS),
        (["visits_7d.ge.1"], 20 + 300 + 2 * PARTITIONS),
        (["visits_ever.eq.1", "visits_7d.ge.1"], 20 + 2 * 300 + 2 * PARTITIONS),
        (["visits_7d.ge.1"] * 8, 20 + 8 * 300 + 2 * PARTITIONS),
        ([], 20),
    ],
)
def test_comparisons_cost_by_ranges_partitions_and_keys(where: list[str], cost: int) -> None:
    price = ComparisonCost("where", 2, 300, exact=("visits_ever",))
    query = [("limit", "9"), *(("where", text) for text in where)]
    assert cost_of(Cost(20, comparisons=price), query, PARTITIONS) == cost


def test_the_state_that_is_read_for_an_answer_is_charged(guarded: Guarded) -> None:
    before = left(guarded)["cost"]
    for reader in chain.from_iterable(guarded.deployment.readers.values()):
        reader.size = 40 * PRICED_BYTES
    for path in (f"/v1/users/{USER}/metrics", f"/v1/many?metrics={USER}&metrics={USER}&artists=1"):
        answer = guarded.get(path, guarded.keys[READ])
        assert answer.status_code == 200
        assert "State-Bytes" not in answer.headers
    assert before - left(guarded)["cost"] >= 3 * 40


@pytest.mark.parametrize("body", [TOO_MANY, TOO_MANY_NAMES, MALFORMED], ids=["keys", "names", "malformed"])
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
