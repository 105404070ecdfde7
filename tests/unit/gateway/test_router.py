"""From a key to its owner: straight, over a stale map, and around an owner that is gone."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

from devkit.servers.child_process import free_port
from services.gateway.routing.owners import Owners
from services.gateway.routing.router import MOST_QUERY_BYTES, Router, queries
from services.gateway.routing.upstream import CROWD
from streamstate.keys import LONG, partition_of
from streamstate.state.store import Commit, OffsetAdvance, Origin
from streamstate.web.http.problems import MOST_KEYS, Problem
from streamstate.web.http.request import Response
from tests.serving import forwarded, soon
from tests.unit.gateway.deployment import MOST, PARTITIONS, STRANGER, USER, Services
from tests.waiting import PATIENCE_S, pause, until_equal

PLACE = partition_of(LONG.encode(USER), PARTITIONS)


def ask(deployment: Services, owners: Owners, user: int = USER) -> Response:
    return ask_metrics(deployment, owners, str(user))


def ask_metrics(deployment: Services, owners: Owners, text: str) -> Response:
    known = owners.now.service("metrics")
    return deployment.loop.run(deployment.router().ask_view(known, known.views["metrics"], text, [], soon()))


def many(deployment: Services, owners: Owners, asked: list[tuple[str, str]]) -> Mapping[str, Any]:
    return deployment.loop.run(deployment.router().many(owners.now, asked, soon()))


def test_every_request_goes_straight_to_the_owner(deployment: Services) -> None:
    owners = deployment.owners()
    for user in range(40):
        answer = ask(deployment, owners, user)
        assert answer.status == 404
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, deployment.owner(USER).address)
    for user in range(40):
        assert f"/v1/users/{user}/metrics" in deployment.owner(user).seen
    assert [forwarded(one.address) for one in deployment.at["metrics"]] == [0, 0]


def test_a_stale_map_is_corrected_by_the_instance_that_was_asked(deployment: Services) -> None:
    owners = deployment.owners()
    before = ask(deployment, owners).served_by
    after = next(one.address for one in deployment.at["metrics"] if one.address != before)
    deployment.stores["metrics"].claim(PLACE, after, {})
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, after)
    assert [forwarded(one.address) for one in deployment.at["metrics"]] == [0, 0]


def test_for_an_owner_that_is_gone_another_instance_stands_in(deployment: Services) -> None:
    owners = deployment.owners()
    ask(deployment, owners)
    deployment.owner(USER).stop()
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, "standby")
    assert ask(deployment, owners, STRANGER).status == 404


def test_for_a_new_owner_that_is_gone_the_one_that_was_asked_stands_in(deployment: Services) -> None:
    owners = deployment.owners()
    before = ask(deployment, owners).served_by
    after = next(one for one in deployment.at["metrics"] if one.address != before)
    deployment.stores["metrics"].claim(PLACE, after.address, {})
    after.stop()
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, "standby")


def test_an_owner_that_hangs_holds_so_many_requests_and_no_others(deployment: Services) -> None:
    gateway, slow = deployment.gateway(requests_in_flight_per_instance=MOST), deployment.owner(USER)
    other = next(user for user in range(100) if deployment.owner(user) is not slow)
    path, gate, answering = f"/v1/users/{USER}/metrics", threading.Event(), slow.app

    def hang(environ: Any, start_response: Any) -> Iterable[bytes]:
        assert gate.wait(PATIENCE_S)
        return answering(environ, start_response)

    slow.app = hang
    with ThreadPoolExecutor(MOST) as pool:
        held = [pool.submit(gateway.get, path) for _ in range(MOST)]
        until_equal(lambda: slow.seen.count(path), MOST)
        refused = gateway.get(path)
        assert gateway.get(f"/v1/users/{other}/metrics").status_code == 404
        gate.set()
        assert {answer.result().headers["Served-By"] for answer in held} == {slow.address}
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert refused.get_json()["type"] == "urn:streamstate:problem:overloaded"
    assert gateway.get(path).headers["Served-By"] == slow.address
    assert slow.seen.count(path) == MOST + 1


def test_a_caller_in_a_hurry_does_not_make_an_owner_ill(deployment: Services) -> None:
    owners = deployment.owners()
    router = deployment.router()
    known = owners.now.service("metrics")
    view = known.views["metrics"]
    owner = deployment.owner(USER)
    answering = owner.app

    def late(environ: Any, start_response: Any) -> Iterable[bytes]:
        pause(0.15)
        return answering(environ, start_response)

    owner.app = late
    for _ in range(5):
        deployment.loop.run(router.ask_view(known, view, str(USER), [], soon(0.3)))
    owner.app = answering
    answer = deployment.loop.run(router.ask_view(known, view, str(USER), [], soon()))
    assert answer.served_by == owner.address


def test_an_owner_that_discovery_does_not_know_is_not_dialled(deployment: Services) -> None:
    owners = deployment.owners()
    stranger = deployment.serve(f"127.0.0.1:{free_port()}", deployment.app())
    deployment.stores["metrics"].claim(PLACE, stranger.address, {})
    answer = ask(deployment, owners)
    assert (answer.status, stranger.seen) == (200, [])


def test_any_instance_is_the_same_instance_for_a_key_until_crowded_or_gone(deployment: Services) -> None:
    known, upstream = deployment.owners().now.service("recommendations"), deployment.upstream()
    view, router = known.views["recommended-artists"], Router(upstream)

    async def served_by(users: Iterable[int]) -> list[str]:
        calls = [router.ask_view(known, view, str(user), [], soon()) for user in users]
        return [answer.served_by for answer in await asyncio.gather(*calls)]

    def in_turn(users: Iterable[int]) -> list[str]:
        return [deployment.loop.run(served_by([user]))[0] for user in users]

    first = in_turn(range(25))
    assert min(Counter(first).values()) >= 4
    assert in_turn(range(25)) == first
    crowd = deployment.loop.run(served_by([1] * 2 * CROWD))
    assert Counter(crowd) == dict.fromkeys(set(first), CROWD)
    gone = deployment.at["recommendations"][0]
    gone.stop()
    assert set(in_turn(range(25))) == {deployment.at["recommendations"][1].address}


def test_the_number_of_partitions_is_the_topics_never_the_maps(deployment: Services) -> None:
    store = deployment.stores["metrics"]
    store.empty()
    first = deployment.at["metrics"][0].address
    origins = {"listening-events": Origin("listening-events", 8)}
    deployment.topics.counts["listening-events"] = 8
    for partition in range(PARTITIONS):
        store.claim(partition, first, {}, origins)
    owners = deployment.owners()
    users = [user for user in range(100) if partition_of(LONG.encode(user), 8) >= PARTITIONS]
    for user in users[:4]:
        assert ask(deployment, owners, user).status == 503


def test_many_keys_are_asked_of_all_owners_once_each(deployment: Services) -> None:
    owners = deployment.owners()
    asked = [("metrics", str(user)) for user in (USER, *range(20))]
    found = many(deployment, owners, asked)["metrics"]
    assert found[str(USER)]["eventCount"] == 3
    assert [found[str(user)] for user in range(20)] == [None] * 20
    assert [sum(path.startswith("/v1/many") for path in one.seen) for one in deployment.at["metrics"]] == [1, 1]


def test_long_keys_are_asked_in_requests_of_a_length_that_servers_take() -> None:
    asked = [("words", "é" * 512), *(("words", f"{number:036}") for number in range(1_000)), ("words", "é" * 512)]
    requests = list(queries(asked))
    assert [each for query in requests for each in query] == asked
    assert all(len(query) <= MOST_KEYS and len(urlencode(query)) <= MOST_QUERY_BYTES for query in requests)


def test_a_partition_that_is_being_built_is_passed_back_as_503(deployment: Services) -> None:
    store = deployment.stores["metrics"]
    store.empty()
    address = deployment.at["metrics"][0].address
    origins = {"listening-events": Origin("listening-events", PARTITIONS)}
    for partition in range(PARTITIONS):
        claim = store.claim(partition, address, {"listening-events": 10}, origins)
        store.commit(Commit(claim, [OffsetAdvance("listening-events", None, 5)], []))
    owners = deployment.owners()
    assert ask(deployment, owners).status == 503
    with pytest.raises(Problem) as error:
        many(deployment, owners, [("metrics", str(USER))])
    assert error.value.status == 503
