"""From a key to its owner: straight, over a stale map, and around an owner that is gone."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from devkit.process import free_port
from services.gateway.owners import Owners
from streamstate.errors import BadKey, Misconfigured
from streamstate.keys import LONG, partition_of
from streamstate.state import Commit, Step
from streamstate.web.bulkhead import SLOW_S
from streamstate.web.client import Answer, Instances
from streamstate.web.problems import MOST_KEYS, Problem
from tests.serving import forwarded, soon, until
from tests.unit.gateway.conftest import CONNECTIONS, PARTITIONS, STRANGER, USER, Deployment

MOST_SLOW = CONNECTIONS // 2
PLACE = partition_of(LONG.encode(USER), PARTITIONS)


def ask(deployment: Deployment, owners: Owners, user: int = USER) -> Answer:
    view = owners.service("metrics").view("metrics")
    return deployment.router(owners).one("metrics", view, str(user), [], soon())


def map_requests(deployment: Deployment) -> int:
    return sum(one.seen.count("/processors") for one in deployment.at["metrics"])


def test_every_request_goes_straight_to_the_owner(deployment: Deployment) -> None:
    owners = deployment.owners()
    for user in range(40):
        answer = ask(deployment, owners, user)
        assert answer.status == 404
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, deployment.owner(USER).address)
    for user in range(40):
        assert f"/v1/users/{user}/metrics" in deployment.owner(user).seen
    assert [forwarded(one.address) for one in deployment.at["metrics"]] == [0, 0]


def test_a_stale_map_is_corrected_by_the_instance_that_was_asked(deployment: Deployment) -> None:
    owners = deployment.owners()
    before = ask(deployment, owners).served_by
    after = next(one.address for one in deployment.at["metrics"] if one.address != before)
    deployment.stores["metrics"].claim(PLACE, after, {})
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, after)
    assert [forwarded(one.address) for one in deployment.at["metrics"]] == [0, 0]


def test_a_stale_map_is_read_again_at_once(deployment: Deployment) -> None:
    owners = deployment.owners()
    owners.start()
    until(lambda: not owners.missing())
    before = ask(deployment, owners).served_by
    after = next(one.address for one in deployment.at["metrics"] if one.address != before)
    deployment.stores["metrics"].claim(PLACE, after, {})
    ask(deployment, owners)
    until(lambda: owners.service("metrics").owners[PLACE] == after)


def test_for_an_owner_that_is_gone_another_instance_stands_in(deployment: Deployment) -> None:
    owners = deployment.owners()
    ask(deployment, owners)
    deployment.owner(USER).stop()
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, "standby")
    assert ask(deployment, owners, STRANGER).status == 404


def test_for_a_new_owner_that_is_gone_the_one_that_was_asked_stands_in(deployment: Deployment) -> None:
    owners = deployment.owners()
    before = ask(deployment, owners).served_by
    after = next(one for one in deployment.at["metrics"] if one.address != before)
    deployment.stores["metrics"].claim(PLACE, after.address, {})
    after.stop()
    answer = ask(deployment, owners)
    assert (answer.status, answer.served_by) == (200, "standby")


def test_a_partition_that_the_map_misses_is_asked_of_any_instance(deployment: Deployment) -> None:
    owners = deployment.owners()
    deployment.stores["metrics"].empty()
    owners.service("metrics")
    deployment.share_out("metrics")
    answer = ask(deployment, owners)
    assert answer.status == 404


def test_an_owner_that_hangs_takes_few_threads_and_another_instance_stands_in(deployment: Deployment) -> None:
    owners = deployment.owners()
    router, view = deployment.router(owners), owners.service("metrics").view("metrics")
    slow, gate = deployment.owner(USER), threading.Event()
    answering = slow.app

    def hang(environ: Any, start_response: Any) -> Iterable[bytes]:
        assert gate.wait(5)
        return answering(environ, start_response)

    slow.app = hang
    with ThreadPoolExecutor(MOST_SLOW) as threads:
        waiting = [threads.submit(router.one, "metrics", view, str(USER), [], soon()) for _ in range(MOST_SLOW)]
        time.sleep(2 * SLOW_S)
        answer = router.one("metrics", view, str(USER), [], soon())
        assert (answer.status, answer.served_by) == (200, "standby")
        assert not any(call.done() for call in waiting)
        gate.set()
        assert {call.result().served_by for call in waiting} == {slow.address}
    assert router.one("metrics", view, str(USER), [], soon()).served_by == slow.address


def test_without_any_instance_it_is_503(deployment: Deployment) -> None:
    owners = deployment.owners()
    ask(deployment, owners)
    for one in deployment.at["metrics"]:
        one.stop()
    with pytest.raises(Problem, match="no instance of metrics can be reached") as error:
        ask(deployment, owners)
    assert error.value.status == 503


def test_a_service_that_never_answered_is_503() -> None:
    owners = Owners({"metrics": [f"127.0.0.1:{free_port()}"]}, Instances(1), 3_600, 1)
    assert owners.missing() == ["metrics"]
    with pytest.raises(Problem, match="no instance of metrics answers"):
        owners.service("metrics")


def test_the_number_of_partitions_comes_from_kafka_never_from_the_map(deployment: Deployment) -> None:
    owners = deployment.owners()
    owners.service("metrics")
    users = [user for user in range(100) if partition_of(LONG.encode(user), 8) >= PARTITIONS]
    deployment.topics.counts["listening-events"] = 8
    for partition in range(PARTITIONS, 8):
        deployment.stores["metrics"].claim(partition, deployment.at["metrics"][0].address, {})
    for user in users[:4]:
        assert ask(deployment, owners, user).status == 404
        asked = [one.seen.count(f"/v1/users/{user}/metrics") for one in deployment.at["metrics"]]
        assert asked == [1, 0]


def test_a_topic_that_kafka_does_not_know_is_not_guessed(deployment: Deployment) -> None:
    owners = deployment.owners()
    owners.service("metrics")
    del deployment.topics.counts["listening-events"]
    with pytest.raises(Misconfigured, match="listening-events"):
        ask(deployment, owners)


def test_the_map_is_read_once_for_many_requests(deployment: Deployment) -> None:
    owners = deployment.owners()
    for _ in range(5):
        ask(deployment, owners)
    assert map_requests(deployment) == 1


def test_text_that_is_no_key_asks_nobody(deployment: Deployment) -> None:
    owners = deployment.owners()
    view = owners.service("metrics").view("metrics")
    with pytest.raises(BadKey):
        deployment.router(owners).one("metrics", view, "1_000", [], soon())
    assert not any(path.startswith("/v1") for one in deployment.at["metrics"] for path in one.seen)


def test_many_keys_are_asked_of_all_owners_once_each(deployment: Deployment) -> None:
    owners = deployment.owners()
    asked = [("metrics", str(user)) for user in (USER, *range(20))]
    found = deployment.router(owners).many("metrics", asked, soon())
    assert found["metrics", str(USER)]["eventCount"] == 3
    assert [found["metrics", str(user)] for user in range(20)] == [None] * 20
    assert [sum(path.startswith("/v1/many") for path in one.seen) for one in deployment.at["metrics"]] == [1, 1]


def test_more_keys_than_one_request_takes_are_asked_in_several(deployment: Deployment) -> None:
    owners = deployment.owners()
    asked = [("artists", str(number)) for number in range(1, 2 * MOST_KEYS + 2)]
    found = deployment.router(owners).many("names", asked, soon())
    assert found["artists", "1"] == {"id": 1, "name": "Prince"}
    assert len(found) == len(asked)


def test_many_keys_survive_an_owner_that_is_gone(deployment: Deployment) -> None:
    owners = deployment.owners()
    owners.service("metrics")
    deployment.owner(USER).stop()
    found = deployment.router(owners).many("metrics", [("metrics", str(USER))], soon())
    assert found["metrics", str(USER)]["eventCount"] == 3


def test_many_keys_over_a_stale_map_where_some_have_moved(deployment: Deployment) -> None:
    owners = deployment.owners()
    owners.service("metrics")
    before = deployment.owner(USER).address
    mine = [user for user in range(60) if deployment.owner(user).address == before]
    after = next(one.address for one in deployment.at["metrics"] if one.address != before)
    deployment.stores["metrics"].claim(PLACE, after, {})
    found = deployment.router(owners).many("metrics", [("metrics", str(user)) for user in (USER, *mine)], soon())
    assert found["metrics", str(USER)]["eventCount"] == 3


def test_a_partition_that_is_being_built_is_passed_back_as_503(deployment: Deployment) -> None:
    owners = deployment.owners()
    store = deployment.stores["metrics"]
    store.empty()
    address = deployment.at["metrics"][0].address
    for partition in range(PARTITIONS):
        claim = store.claim(partition, address, {"listening-events": 10})
        store.commit(Commit(claim, [Step("listening-events", None, 5)], []))
    assert ask(deployment, owners).status == 503
    with pytest.raises(Problem) as error:
        deployment.router(owners).many("metrics", [("metrics", str(USER))], soon())
    assert error.value.status == 503
