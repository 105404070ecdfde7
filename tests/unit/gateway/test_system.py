"""The state of all services, once and as a stream."""

import time
from typing import Any

from services.gateway.system import service
from streamstate.keys import LONG, partition_of
from streamstate.web.partition_map import Partition, Processors, ViewEntry
from tests.listening import Listener
from tests.unit.gateway.deployment import PARTITIONS, USER, Services
from tests.waiting import until

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


def test_an_instance_that_goes_and_partitions_that_move_are_told_within_two_seconds(deployment: Services) -> None:
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
    stopped = time.monotonic()
    until(lambda: state() == ("none", addresses[gone]))
    deployment.own("metrics", home, other)
    until(lambda: state() == ("ready", addresses[other]))
    assert time.monotonic() - stopped < 4


def test_reads_a_second(deployment: Services) -> None:
    app = deployment.app()
    client = Listener(deployment.loop, app, "/v1/system/stream")
    client.next()
    reading = deployment.gateway()
    for _ in range(20):
        reading.get(f"/v1/users/{USER}/metrics")
    until(lambda: service_state(client.next().data, "metrics")["readsPerSecond"] > 5)
    until(lambda: service_state(client.next().data, "metrics")["readsPerSecond"] == 0)
