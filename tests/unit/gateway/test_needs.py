"""What a request needs of its caller."""

import json
import time
from typing import Any

import pytest

from services.gateway.needs import DEMAND_COST, Needs, needs
from streamstate.web.http.request import Request, path_of
from tests.unit.gateway.deployment import Services

MANY, USER, VIEW = "/v1/many", "/v1/users/<key>", "/v1/<path:rest>"
RECOMMENDED = "/v1/users/42/recommendations"


def needed(deployment: Services, path: str, body: Any = None, **headers: str) -> Needs:
    path, _, query = path.partition("?")
    given = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"path": path, "query_string": query.encode(), "headers": given, "method": "GET", "ids": {}}
    request = Request(
        scope, path_of(scope), time.monotonic(), 1_000, None if body is None else json.dumps(body).encode()
    )
    rule = MANY if path == MANY else USER if path.count("/") == 3 and path.startswith("/v1/users/") else VIEW
    owners = deployment.owners()
    owners.keyed["albums"].views["albums"].scope = "explore"
    return needs(request, rule, {"key": path.rpartition("/")[2]}, "read", owners)


@pytest.mark.parametrize(
    ("path", "cost"),
    [
        ("/v1/users/42/metrics", 1),
        ("/v1/artists/1", 1),
        ("/v1/plays", 10),
        (f"{RECOMMENDED}/artists", 5),
        (f"{RECOMMENDED}/artists?walks=10&walkLength=10", 5),
        (f"{RECOMMENDED}/artists?walks=100000&walkLength=10", 500),
        (f"{RECOMMENDED}/artists?walks=10000&walkLength=200", 100),
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
def test_the_cost_is_what_is_done(deployment: Services, path: str, cost: int) -> None:
    assert needed(deployment, path).cost == cost
    assert needed(deployment, path, x_max_staleness="100").cost == cost + DEMAND_COST


def test_posted_keys_cost_as_much(deployment: Services) -> None:
    assert needed(deployment, MANY, {"metrics": [*range(500)]}).cost == 500


def test_many_keys_need_the_scope_of_each_view(deployment: Services) -> None:
    assert needed(deployment, f"{MANY}?artists=1").scopes == {"read"}
    assert needed(deployment, f"{MANY}?artists=1&albums=2").scopes == {"read", "explore"}
    assert needed(deployment, MANY, {"albums": [2]}).scopes == {"read", "explore"}


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
def test_whose_data_it_is_about(deployment: Services, path: str, user: str | None) -> None:
    assert needed(deployment, path).user == user
