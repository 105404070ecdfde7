"""Questions beside profiles: routes, users by their digits, recommendations; and how long names are remembered."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client

from services.gateway.names import NameCache, NamedObjects, Names
from services.gateway.routing.directory import BESIDE, Directory, ServiceMap
from services.gateway.routing.owners import Owners
from services.gateway.search import DRAWN, MOST_DIGITS, candidates, drawn, tried
from services.gateway.system import service
from streamstate.keys import LONG, LONG_MAX, partition_of
from streamstate.web.partition_map import Partition, Processors, ViewEntry
from tests.listening import Listener
from tests.serving import Loop, soon
from tests.unit.gateway.deployment import FAN, PARTITIONS, USER, Services
from tests.waiting import until, until_equal

# The route of a key, explained.


def test_a_route_tells_key_bytes_hash_partition_and_owner(standing: Services, reader: Client) -> None:
    response = reader.get(f"/v1/route/metrics/{USER}")
    (step,) = response.get_json()["views"]
    owner = standing.owner(USER)
    assert response.status_code == 200
    assert step["keyBytes"] == LONG.encode(USER).hex()
    assert step["hash"] % step["partitions"] == step["partition"]
    assert (step["view"], step["topic"], step["key"]) == ("metrics", "listening-events", "long")
    assert (step["owner"], step["partitions"], step["ready"]) == (owner.address, PARTITIONS, True)
    assert step["epoch"] == standing.stores["metrics"].read({step["partition"]: []})[step["partition"]].epoch


@pytest.mark.parametrize(("path", "status"), [("metrics/abc", 400), ("metrics/-1", 400), ("none/1", 404)])
def test_what_has_no_route_is_a_problem(reader: Client, path: str, status: int) -> None:
    response = reader.get(f"/v1/route/{path}")
    assert (response.status_code, response.content_type) == (status, "application/problem+json")


def test_a_demand_reaches_the_state_and_its_position_comes_back(reader: Client) -> None:
    (step,) = reader.get(f"/v1/route/metrics/{USER}").get_json()["views"]
    place = f"listening-events:{step['partition']}"
    fine = reader.get(f"/v1/users/{USER}/metrics", headers={"X-Min-Position": f"{place}=3"})
    assert (fine.status_code, fine.headers["Position"]) == (200, f"{place}=3")
    headers = {"X-Min-Position": f"{place}=4", "X-Deadline-Ms": "300"}
    late = reader.get(f"/v1/users/{USER}/metrics", headers=headers)
    assert late.status_code == 503
    assert "1 records before" in late.get_json(force=True)["detail"]


# Users by the first digits of their ids.

PREFIXES = st.one_of(st.just(""), st.integers(0, LONG_MAX).map(str))


@given(PREFIXES, st.integers(0, MOST_DIGITS))
def test_candidates_are_the_ids_that_begin_so(prefix: str, more: int) -> None:
    found = candidates(prefix, more)
    assert [LONG.parse(text) for text in found] == sorted(map(int, found))
    assert all(text.startswith(prefix) and len(text) == len(prefix) + more for text in found)
    assert len(found) <= 10**more


@given(PREFIXES, st.integers(MOST_DIGITS + 1, 18))
def test_those_of_a_greater_length_are_drawn_from_all_of_them(prefix: str, more: int) -> None:
    found = drawn(prefix, more)
    assert found == drawn(prefix, more)
    assert [LONG.parse(text) for text in found] == sorted(set(map(int, found)))
    assert all(text.startswith(prefix) and len(text) == len(prefix) + more for text in found)
    # The ids that begin with 0 or are too large are left out.
    fitting = prefix not in ("", "0") and len(prefix) + more < len(str(LONG_MAX))
    assert len(found) == DRAWN if fitting else len(found) <= DRAWN


@given(PREFIXES)
def test_a_search_tries_a_bounded_number_of_ids(prefix: str) -> None:
    assert sum(map(len, tried(prefix))) <= 1_111 + 1_024


def test_a_user_with_a_long_id_is_suggested(deployment: Services) -> None:
    user = int(drawn("7", 8)[20])
    deployment.play([(user, 1, 2, 3, 1_000)])
    assert deployment.gateway().get("/v1/users?prefix=7").get_json() == {"users": [user]}


def test_users_who_exist_those_with_short_ids_first(deployment: Services) -> None:
    deployment.play([(4_100, 1, 2, 3, 1_000), (400, 1, 2, 3, 1_000)])
    gateway = deployment.gateway()
    for query, users in {
        # Without a prefix, ids of four digits are too many.
        "": [USER, FAN, 400],
        "?prefix=4": [USER, FAN, 400, 4_100],
        "?prefix=4&limit=1": [USER],
        "?prefix=42": [USER],
        "?prefix=41": [4_100],
        "?prefix=5": [],
        "?prefix=0": [],
        "?prefix=9223372036854775807": [],
    }.items():
        assert gateway.get(f"/v1/users{query}").get_json() == {"users": users}, query


@pytest.mark.parametrize("query", ["prefix=x", "prefix=01", "prefix=-1", "limit=0", "limit=101", "prefix=1&prefix=2"])
def test_a_search_that_is_none(reader: Client, query: str) -> None:
    assert reader.get(f"/v1/users?{query}").status_code == 400


# Names are remembered for as long as their tables stand still.

ARTIST, NAMELESS = 1, 77


def bulk_calls(deployment: Services) -> int:
    return sum(path.startswith("/v1/many") for path in deployment.at["names"][0].seen)


def test_a_name_that_changes_is_seen_with_the_next_map(deployment: Services, loop: Loop) -> None:
    owners = Owners(deployment.upstream(), ttl_s=0.05)
    loop.run(owners.refresh())
    cache = NameCache(deployment.router(), most=100)

    def find() -> Names:
        place = NamedObjects("artists", "id", "name", [{"id": ARTIST}, {"id": NAMELESS}, {"id": ARTIST}])
        return loop.run(cache.get(owners.now, [place], soon()))

    assert find() == {"artists": {ARTIST: "Prince", NAMELESS: None}}
    deployment.name("artists", 1, "The Artist")
    deployment.name("artists", 77, "A Stranger")
    assert find() == {"artists": {ARTIST: "Prince", NAMELESS: None}}
    assert bulk_calls(deployment) == 1
    loop.run(owners.start())
    until_equal(find, {"artists": {ARTIST: "The Artist", NAMELESS: "A Stranger"}})
    loop.run(owners.stop())


def test_names_of_a_promoted_release_are_read_anew(
    deployment: Services, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its positions may be those of the release before."""
    own, beside = deployment.addresses(), f"names{BESIDE}names-2"
    monkeypatch.setattr(deployment, "addresses", lambda: {**own, beside: own["names"]})
    owners, cache = Owners(deployment.upstream(), ttl_s=60), NameCache(deployment.router(), most=100)
    loop.run(owners.refresh())
    staged = owners.release(beside)
    assert staged
    promoted = ServiceMap(beside, msgspec.structs.replace(staged.processors, live=staged.processors.service))
    for at, calls in (owners.now, 1), (owners.now, 1), (Directory([beside], {beside: promoted}), 2):
        loop.run(cache.get(at, [NamedObjects("artists", "id", "name", [{"id": ARTIST}])], soon()))
        assert bulk_calls(deployment) == calls


# The state of all services, once and as a stream.

HERE, THERE = "10.0.0.1:8101", "words-1.words.shop.svc:8101"
KEYED, ANYWHERE = (ViewEntry("words", "/v1/words/<key>", "lines", "text", anywhere) for anywhere in (False, True))


def partition(number: int, owner: str | None = HERE, **values: Any) -> Partition:
    return Partition(number, owner, 1, True, {"lines": 40}, {"lines": 42}, **values)


def told(*partitions: Partition, view: ViewEntry = KEYED) -> Processors:
    return Processors("words", {"lines": len(partitions)}, [], list(partitions), [view], age_ms=120)


def states(known: Processors | None, *answering: str, current: bool = True) -> list[str]:
    return [owner.state for owner in service("words", known, set(answering), 0.0, current=current).owners]


class TestService:
    def test_the_numbers_of_all_partitions_are_added_up(self) -> None:
        letters: dict[str, Any] = {"dead_letters": 2, "dead_letter_reasons": {"decode: BadRecord": 1, "timestamp": 1}}
        others: dict[str, Any] = {"dead_letters": 1, "dead_letter_reasons": {"timestamp": 1}}
        known = told(partition(0, **letters), partition(1, THERE, progress=0.5, **others))
        found = service("words", known, {HERE, THERE}, 7.5, current=True)
        assert (found.partitions, found.lag, found.dead_letters, found.progress) == (2, 4, 3, 0.75)
        assert found.dead_letter_reasons == {"decode: BadRecord": 1, "timestamp": 2}
        assert (found.ready, found.reads_per_second, found.freshness_ms) == (True, 7.5, 120)

    def test_a_partition_whose_owner_does_not_answer_has_none(self) -> None:
        assert states(told(partition(0), partition(1, THERE), partition(2, None)), HERE) == ["ready", "none", "none"]

    def test_a_state_that_is_built_or_refused(self) -> None:
        building, refused = partition(0), partition(1, refused="the folds have changed; reset it")
        building.ready = False
        assert states(told(building, refused), HERE) == ["building", "refused"]

    def test_a_partition_that_holds_a_part_of_a_commit_is_refused(self) -> None:
        known = told(partition(0), partition(1), partition(2))
        del known.partitions[1]
        found = service("words", known, {HERE}, 0.0, current=True)
        assert [(owner.partition, owner.state) for owner in found.owners] == [
            (0, "ready"),
            (1, "refused"),
            (2, "ready"),
        ]
        assert (found.partitions, found.ready) == (3, False)


def service_state(system: Any, name: str) -> Any:
    return next(each for each in system["services"] if each["name"] == name)


def test_an_instance_that_goes_and_partitions_that_move_are_told(deployment: Services) -> None:
    client = Listener(deployment.loop, deployment.app(), "/v1/system/stream")
    first = client.next()
    assert (first.name, service_state(first.data, "metrics")["ready"]) == ("system", True)
    home = partition_of(LONG.encode(USER), PARTITIONS)
    gone, other = home % 2, 1 - home % 2

    def state() -> tuple[str, str]:
        owner = service_state(client.next().data, "metrics")["owners"][home]
        return owner["state"], owner["address"]

    addresses = [one.address for one in deployment.at["metrics"]]
    deployment.at["metrics"][gone].stop()
    until(lambda: state() == ("none", addresses[gone]))
    deployment.own("metrics", home, other)
    until(lambda: state() == ("ready", addresses[other]))


def test_reads_a_second(deployment: Services) -> None:
    app = deployment.app()
    client = Listener(deployment.loop, app, "/v1/system/stream")
    client.next()
    reading = deployment.gateway()
    for _ in range(20):
        reading.get(f"/v1/users/{USER}/metrics")
    until(lambda: service_state(client.next().data, "metrics")["readsPerSecond"] > 5)
    until_equal(lambda: service_state(client.next().data, "metrics")["readsPerSecond"], 0)
