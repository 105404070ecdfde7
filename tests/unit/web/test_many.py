"""Many keys at once, and a state of many partitions, of which an answer still fits into any proxy."""

from typing import Any

import pytest

from streamstate.state.memory import MemoryStore
from streamstate.state.operations import HistoryDays
from streamstate.state.store import EACH, Commit, OffsetAdvance, Origin
from streamstate.web.consistency import Demand
from streamstate.web.http.demands import MIN_POSITION
from streamstate.web.http.events import Streams
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import POSITION
from streamstate.web.user_data import of_user
from tests.unit.web.conftest import Instance, Service
from tests.unit.web.test_api import problem

# Many keys at once, of one or several views.


def test_a_thousand_keys_are_answered_to_one_post(service: Service, api: Instance) -> None:
    service.count("numbers", 7, 2)
    service.count("words", "a b")
    body: dict[str, Any] = {"numbers": [*range(996), str(2**63 - 1), "7"], "words": ["a b", "c"]}
    found = api.client.post("/v1/many", json=body).get_json()
    assert [key for key, tally in found["numbers"].items() if tally] == ["7"]
    assert len(found["numbers"]) == 997
    assert found["words"] == {"a b": {"key": "a b", "count": 1}, "c": None}
    body["words"].append("d")
    assert "POST up to 1000" in problem(api.client.post("/v1/many", json=body), 400, "bad-query")["detail"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        *((body, "bad-body") for body in (b"", b"{", b"[]", b"1", b'{"numbers": 7}', b'{"numbers": [[7]]}', b"\xff")),
        *((body, "bad-body") for body in (b'{"numbers": [7.5]}', b'{"numbers": [true]}', b'{"numbers": [null]}')),
        (b'{"numbers": [%s]}' % (b"9" * 5_000), "bad-body"),
        (b"[" * 100_000, "bad-body"),
        *((body, "bad-query") for body in (b"{}", b'{"numbers": []}', b'{"users": [1]}', b'{"sum": ["a"]}')),
        *((body, "bad-key") for body in (b'{"numbers": [-1]}', b'{"numbers": ["x"]}', b'{"words": ["\\udc00"]}')),
    ],
)
def test_a_body_that_is_none_is_400(api: Instance, body: bytes, kind: str) -> None:
    response = api.client.post("/v1/many", data=body)
    if b"udc00" in body:
        assert response.status_code == 400
    else:
        problem(response, 400, kind)


def test_a_body_that_is_too_long_is_413(api: Instance) -> None:
    body = b'{"numbers": [7' + b" " * 128 * 1024 + b"]}"
    assert "131072 bytes" in problem(api.client.post("/v1/many", data=body), 413, "body-too-large")["detail"]


def test_a_post_keeps_the_rules_of_deadlines_and_demands(service: Service, api: Instance) -> None:
    service.count("numbers", 7)
    problem(api.client.post("/v1/many", json={"numbers": [7]}, headers={"X-Deadline-Ms": "x"}), 400, "bad-deadline")
    headers = {"X-Min-Position": "numbers:0=99,numbers:1=99,numbers:2=99,numbers:3=99", "X-Deadline-Ms": "150"}
    problem(api.client.post("/v1/many", json={"numbers": [7]}, headers=headers), 503, "not-ready")


@pytest.mark.parametrize("query", ["", "users=1", "numbers=1&users=1", "&".join(f"numbers={n}" for n in range(201))])
def test_a_query_for_many_that_is_none_is_400(api: Instance, query: str) -> None:
    detail = problem(api.client.get(f"/v1/many?{query}"), 400, "bad-query")["detail"]
    assert "1 to 200 keys" in detail
    assert "numbers, words" in detail


# A state of many partitions: what an answer says of it fits into the head of any proxy, and is a demand as before.

PARTITIONS = 1_024
TOPICS = ("numbers", "words")


def advance(service: Service, address: str, partition: int, start: int | None, end: int) -> None:
    origins = {topic: Origin(topic, PARTITIONS) for topic in TOPICS}
    claim = service.store.claim(partition, address, dict.fromkeys(TOPICS, 1), origins)
    service.store.commit(Commit(claim, [OffsetAdvance(topic, start, end) for topic in TOPICS], []))
    service.topics.written |= {(topic, partition): end for topic in TOPICS}


@pytest.fixture
def wide(service: Service) -> Instance:
    service.topics.counts = dict.fromkeys(TOPICS, PARTITIONS)
    instance = service.instance()
    for partition in range(PARTITIONS):
        advance(service, instance.address, partition, None, 10**12 + partition)
    service.freshness.refresh()
    return instance


def test_the_position_of_all_partitions_fits_into_a_header(service: Service, wide: Instance) -> None:
    told = wide.client.get("/v1/all").headers
    assert told[POSITION] == ", ".join(f"{topic}:*={10**12 + PARTITIONS - 1}" for topic in TOPICS)
    assert sum(len(name) + len(text) + 4 for name, text in told.items()) < 2_048

    def status() -> int:
        headers = {MIN_POSITION: told[POSITION], "X-Deadline-Ms": "1000"}
        return wide.client.get("/v1/all", headers=headers).status_code

    # Each partition is at its end, though most of them stand before the greatest offset.
    assert status() == 200
    service.topics.written["words", 7] += 1
    assert status() == 503
    advance(service, wide.address, 7, 10**12 + 7, 10**12 + 8)
    assert status() == 200


def test_a_demand_of_each_partition_is_met_at_the_offset_or_at_the_end() -> None:
    demand = Demand({("a", EACH): 9}, None, {("a", 0): 5, ("a", 1): 12})
    assert demand.lacking({("a", 0): 5, ("a", 1): 9, ("b", 0): 0}, None) == ""
    assert "partition 0 of a is 1 records before" in demand.lacking({("a", 0): 4, ("a", 1): 9}, None)
    assert "partition 1 of a is 1 records before" in demand.lacking({("a", 0): 5, ("a", 1): 8}, None)


# Server-sent events: the received events of a series, for slow clients and any start.

LONG_S = 60.0


def test_there_are_no_more_streams_than_may_be() -> None:
    streams = Streams(1, LONG_S)
    with streams.place(), pytest.raises(Problem, match="ask again") as refused, streams.place():
        pass
    assert refused.value.status == 503
    with streams.place():
        pass


# The export of a user.


def test_nothing_is_held_in_a_history_without_days() -> None:
    read = HistoryDays("events", "42")
    [nothing] = MemoryStore().read({0: [read]})[0].values
    assert not of_user(read, nothing)
    assert of_user(read, (0, {20_000: "[1]\n"})) == {20_000: "[1]\n"}
