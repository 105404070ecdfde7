"""Users found by a value, at the gateway before two instances: sizes as streams, bad parameters, rights."""

from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.test import Client

from streamstate.keys import LONG, partition_of
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.testing import Driver
from tests.listening import Listener
from tests.serving import Loop, Serve, looping, serving
from tests.unit.gateway.deployment import PARTITIONS, Services
from tests.unit.gateway.guarding import ADMIN, EXPLORE, MAY, READ, Guarded
from tests.waiting import now_ms, until

YAML = """
name: habits
topic: visits
key: long
path: /v1/users/<key>/habits
part: true
fields: {page: str, lastedMs: int}
measures:
  visits: {count: all, over: [7d, ever], index: true}
  lasted: {total: lastedMs, over: [7d, ever]}
  longest: {most: lastedMs}
  pages: {top: 3, of: page, total: lastedMs}
  frequent: {top: 3, of: lastedMs}
  last: {last: timestamp}
rules: {often: {when: {visits: {ge: 5}}, over: ever}}
"""
APP = profile_app(parse(YAML))
FIND, COUNT = "/v1/users/habits/find", "/v1/users/habits/count"


class Visits:
    """Visits of users in the state of `services`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._offsets = [0] * PARTITIONS
        services.start(APP, 2)

    def feed(self, visits: dict[int, int]) -> None:
        """So many visits of each user."""
        driver = Driver(APP, self._services.stores[APP.name], PARTITIONS)
        at = now_ms()
        for user, number in visits.items():
            partition = partition_of(LONG.encode(user), PARTITIONS)
            offset = self._offsets[partition]
            driver.feed(partition, {"visits": [(offset + n, at, LONG.encode(user), b"{}") for n in range(number)]})
            self._offsets[partition] += number
        self._services.share_out(APP.name)


@pytest.fixture
def services(serve: Serve, loop: Loop) -> Services:
    return Services(serve, loop)


def get(client: Client, path: str, expected: int = 200) -> Any:
    response = client.get(path)
    assert response.status_code == expected, response.get_data(as_text=True)
    return response.get_json(force=True)


@pytest.fixture(scope="module")
def known() -> Iterator[Client]:
    """A gateway before instances that know a user."""
    with looping() as loop, serving(loop) as serve:
        services = Services(serve, loop)
        Visits(services).feed({1: 1})
        yield services.gateway()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "where: give a comparison, such as where=visits_7d.ge.100"),
        ("where=visits.ge.1", "where: there is no index visits; did you mean visits_7d?"),
        ("where=visits_7d.le.1", "where: visits_7d is over a window"),
        ("where=visits_ever.ge.%00", "where: visits_ever is compared with a whole number"),
        ("where=visits_ever.ge.1&limit=0", "limit: "),
        ("where=visits_ever.ge.1&limit=1001", "limit: "),
        ("where=visits_ever.ge.1&limit=1&limit=2", "limit is given 2 times; give it once"),
        ("where=visits_ever.ge.1&cursor=eHg", "cursor: this is no cursor"),
        ("where=visits_ever.ge.1&at=-1", "at: "),
        ("where=visits_7d.ge.1&at=1", "at: the earliest moment is "),
        ("&".join(["where=visits_ever.ge.1"] * 9), "where: "),
    ],
)
def test_a_bad_parameter_is_named(known: Client, query: str, reason: str) -> None:
    problem = get(known, f"{FIND}?{query}", 400)
    assert problem["detail"].startswith(reason)


def test_the_answers_need_the_scope_explore(guarded: Guarded) -> None:
    Visits(guarded.deployment).feed({1: 1})
    client = guarded.deployment.gateway()
    for scope in MAY:
        for path in (FIND, COUNT, f"{COUNT}/stream"):
            response = client.open(
                f"{path}?where=visits_ever.ge.1",
                method="HEAD" if path.endswith("/stream") else "GET",
                headers={"Authorization": f"Bearer {guarded.keys[scope]}"},
            )
            assert response.status_code == {READ: 403, EXPLORE: 200, ADMIN: 200}[scope]


def test_the_document_has_the_streams_of_answers(known: Client) -> None:
    paths = get(known, "/openapi.json")["paths"]
    names = [
        [(each["name"], each["required"]) for each in paths[path]["get"]["parameters"] if each["in"] == "query"]
        for path in (COUNT, f"{COUNT}/stream")
    ]
    assert names[0] == names[1] == [("where", True), ("at", False)]
    assert "/v1/habits/processors" in paths
    assert "/v1/habits/processors/stream" not in paths
    assert {path for path in paths if path.startswith("/v1/rules/")} == {
        "/v1/rules/habits/often",
        "/v1/rules/{rule}/stream",
        "/v1/rules/{profile}/{rule}/stream",
    }


def test_the_document_says_whose_unit_a_number_has(known: Client) -> None:
    members = get(known, "/openapi.json")["components"]["schemas"]["Habits"]["properties"]
    units = {name: member["description"] for name, member in members.items() if "unit" in member.get("description", "")}
    assert units == dict.fromkeys(["lasted", "longest", "pages"], "in the unit of lastedMs")


def test_the_size_of_a_segment_is_sent_again_when_it_has_changed(services: Services) -> None:
    visits = Visits(services)
    visits.feed({1: 2, 2: 1})
    gateway = services.app(streams=2)
    where = "where=visits_7d.ge.2"
    client, windowed = (
        Listener(services.loop, gateway, f"{COUNT}/stream?{query}") for query in ("where=visits_ever.ge.2", where)
    )
    for each in (client, windowed):
        first = each.next()
        assert (first.name, first.data) == ("count", {"count": 1, "exact": True})
    visits.feed({1: 1})
    assert client.quiet(2.5)
    visits.feed({2: 1, 3: 2})
    assert [each.next().data["count"] for each in (client, windowed)] == [3, 3]
    assert Listener(services.loop, gateway, f"{COUNT}/stream?{where}").quiet()
    client.leave()
    refused = Listener(services.loop, gateway, f"{COUNT}/stream?where=visits.ge.1")
    until(lambda: refused.blocks)
    assert refused.status == 400
    assert "did you mean visits_7d?" in refused.blocks[0]


def test_a_streamed_size_ends_with_the_reason_when_the_index_is_gone(services: Services) -> None:
    Visits(services)
    gateway = services.app(owners_ttl_s=0.1)
    client = Listener(services.loop, gateway, f"{COUNT}/stream?where=visits_ever.ge.2")
    assert client.next().data == {"count": 0, "exact": True}
    services.replace(profile_app(parse(YAML.replace(", index: true", ""))))
    end = client.next()
    assert (end.name, end.data["status"]) == ("problem", 404)
    until(lambda: client.ended)
