"""The API of a service over its state: answers, refusals, status."""

import re
from typing import Any, cast

import pytest
from werkzeug.test import TestResponse

from streamstate.keys import LONG, partition_of
from streamstate.state.operations import Append
from streamstate.state.store import Commit, OffsetAdvance, Origin
from tests.serving import sample, scrape
from tests.unit.web.conftest import COUNTS, Instance, Service


def problem(response: TestResponse, status: int, kind: str) -> dict[str, Any]:
    """The problem that `response` is."""
    assert response.status_code == status
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = response.get_json(force=True)
    assert (body["type"], body["status"]) == (f"urn:streamstate:problem:{kind}", status)
    assert body["title"]
    assert body["detail"]
    return body


def test_before_the_first_claim_it_is_503(service: Service) -> None:
    api = service.instance()
    response = api.client.get("/v1/numbers/7")
    assert "no instance owns partitions of" in problem(response, 503, "not-ready")["detail"]
    assert int(response.headers["Retry-After"]) >= 1
    problem(api.client.get("/processors"), 503, "not-ready")
    assert api.client.get("/livez").get_json() == {"status": "alive"}


def test_a_topic_that_is_being_read_for_the_first_time_holds_up_only_its_own_views(service: Service) -> None:
    api = service.instance()
    partition = partition_of(LONG.encode(7), 4)
    service.own(api.address)
    service.count("numbers", 7, 3)
    service.store.claim(partition, api.address, {"words": 100, "taken-away": 100})
    assert api.client.get("/v1/numbers/7").status_code == 200
    assert api.client.get("/v1/many?numbers=7").status_code == 200
    assert problem(api.client.get("/readyz"), 503, "not-ready")["progress"] == 0
    claim = service.store.claim(partition, api.address, {})
    service.store.commit(Commit(claim, [OffsetAdvance("words", None, 100)], []))
    assert api.client.get("/readyz").status_code == 200


def test_a_partition_that_is_being_built_is_503_with_its_progress(service: Service) -> None:
    api = service.instance()
    service.own(api.address, ends=100)
    partition = partition_of(LONG.encode(7), 4)
    claim = service.store.claim(partition, api.address, {})
    words = {"words": 100} if partition < 2 else {}
    service.store.commit(Commit(claim, [OffsetAdvance("numbers", None, 50)], []))
    for topic, end in words.items():
        service.store.commit(Commit(claim, [OffsetAdvance(topic, None, end // 2)], []))
    response = api.client.get("/v1/numbers/7")
    assert problem(response, 503, "not-ready")["progress"] == 50
    assert sample(scrape(api.client), "streamstate_build_progress", partition=str(partition)) == 0.5
    assert "Retry-After" in response.headers
    problem(api.client.get("/v1/many?numbers=7"), 503, "not-ready")
    problem(api.client.get("/readyz"), 503, "not-ready")


def test_a_state_without_the_beginning_of_its_topic_is_503_unless_that_is_allowed(service: Service) -> None:
    api = service.instance()
    partition = partition_of(LONG.encode(7), COUNTS["numbers"])
    service.own(api.address)
    service.store.claim(partition, api.address, {}, begins={"numbers": 5})
    service.count("numbers", 7)
    for path in ("/v1/numbers/7", "/v1/many?numbers=7", "/v1/all", "/readyz"):
        assert f"numbers:{partition} begins at offset 5" in problem(api.client.get(path), 503, "not-ready")["detail"]
    assert api.client.get("/v1/words/none").status_code == 404

    allowing = service.instance(truncated_topics=("numbers",))
    for path in ("/v1/numbers/7", "/v1/many?numbers=7", "/v1/all"):
        assert allowing.client.get(path).headers["State-Begin"] == f"numbers:{partition}=5"
    metrics = allowing.client.get("/metrics").get_data(as_text=True)
    assert sample(metrics, "streamstate_begin_offset", topic="numbers", partition=str(partition)) == 5


def test_a_state_of_another_fold_is_503_and_names_both(service: Service, api: Instance) -> None:
    partition = service.count("numbers", 7)
    service.store.claim(partition, api.address, {}, folds={"numbers": "another"})
    detail = problem(api.client.get("/v1/numbers/7"), 503, "not-ready")["detail"]
    assert "another fold of numbers than this release's (another, now {" in detail
    assert api.client.get("/v1/words/none").status_code == 404


def test_keys_that_moved_with_new_partitions_are_503_and_not_404(service: Service, api: Instance) -> None:
    service.count("numbers", 7)
    for partition in range(COUNTS["numbers"]):
        service.store.claim(partition, api.address, {}, {"numbers": Origin("a", COUNTS["numbers"])})
    assert api.client.get("/v1/numbers/7").status_code == 200
    service.topics.counts["numbers"] += 1
    for path in ("/v1/numbers/7", "/v1/many?numbers=7", "/v1/all"):
        assert "keys have moved" in problem(api.client.get(path), 503, "not-ready")["detail"]


def test_processors_is_the_map_of_the_service(service: Service, api: Instance) -> None:
    service.own("10.0.0.9:8101", 1, 3)
    partition = service.count("numbers", 7)
    found = api.client.get("/processors").get_json()
    host, port = api.address.split(":")
    assert found["service"] == "tally"
    assert found["topics"] == {"numbers": 4, "words": 2}
    assert sorted(found["instances"], key=lambda one: one["host"]) == [
        {"host": "10.0.0.9", "port": 8101, "partitions": [1, 3]},
        {"host": host, "port": int(port), "partitions": [0, 2]},
    ]
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2, 3]
    here = found["partitions"][partition]
    assert here["positions"] == {"numbers": 1}
    assert here["ready"] is True
    assert here["epoch"] > 0
    assert found["views"] == [
        _entry("tally-processors", "/v1/tally/processors", scope="admin"),
        _entry("numbers", "/v1/numbers/<key>", "numbers", "long"),
        _entry("words", "/v1/words/<key>", "words", "text"),
        _entry("all", "/v1/all", cost={"base": 10}),
        _entry("sum", "/v1/sum/<key>", "", "text", cost={"base": 10}),
        _entry("above", "/v1/above/<key>", "numbers", "long"),
    ]


def _entry(name: str, path: str, topic: str = "", key: str = "", **declared: Any) -> dict[str, Any]:
    """A view in the map; one without a topic is answered anywhere."""
    usual = {"anywhere": not topic, "scope": "read", "cost": {}, "versioned": False, "partitioner": "murmur2"}
    return {"name": name, "path": path, "topic": topic, "key": key, **usual, **declared}


def test_a_partition_that_holds_a_part_of_a_commit_holds_up_only_its_own_keys(service: Service, api: Instance) -> None:
    spoilt, other = service.count("numbers", 7), service.count("numbers", 1)
    assert spoilt != other
    claim = service.claim(spoilt, api.address)
    no_text = Append("log:7", 1, cast("str", None), 9)
    with pytest.raises(AttributeError):
        service.store.commit(Commit(claim, [OffsetAdvance("numbers", 1, 2)], [no_text]))
    refusal = problem(api.client.get("/v1/numbers/7"), 503, "not-ready")
    assert f"`streamstate reset tally --partition {spoilt}`" in refusal["detail"]
    assert api.client.get("/v1/all").status_code == 503
    assert api.client.get("/v1/numbers/1").get_json() == {"key": "1", "count": 1}
    assert api.client.get("/readyz").status_code == 200
    named = [one["partition"] for one in api.client.get("/processors").get_json()["partitions"]]
    assert sorted([*named, spoilt]) == [0, 1, 2, 3]
    assert f'partition="{other}"' in api.client.get("/metrics").text


def test_ready_means_all_owned_and_our_own_complete(service: Service) -> None:
    api = service.instance()
    service.own(api.address, 0, 1, 2)
    problem(api.client.get("/readyz"), 503, "not-ready")
    service.own("10.0.0.9:8101", 3, ends=100)
    assert api.client.get("/readyz").get_json() == {"status": "ready"}


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "x" * 10_000, "é", "<script>", "a,b"])
def test_another_request_id_is_replaced(api: Instance, given: str) -> None:
    response = api.client.get("/v1/numbers/abc", headers={"X-Request-Id": given})
    assert re.fullmatch("[0-9a-f]{32}", response.headers["X-Request-Id"])


def test_metrics_count_requests_by_route_and_never_show_a_key(service: Service, api: Instance) -> None:
    service.count("numbers", 123_454_321)
    for path in ("numbers/123454321", "numbers/987656789", "words/secret", "secret/1", "many?words=secret"):
        api.client.get(f"/v1/{path}")
    text = scrape(api.client)
    assert not re.search("123454321|987656789|secret", text)
    route = {"service": "tally", "route": "/v1/numbers/<key>"}
    assert sample(text, "streamstate_requests_total", **route, status="200") == 1
    assert sample(text, "streamstate_requests_total", **route, status="404") == 1
    assert sample(text, "streamstate_request_seconds_count", **route) == 2
    assert sample(text, "streamstate_forwarded_requests_total", service="tally") == 0


def test_metrics_tell_what_the_state_says(service: Service, api: Instance) -> None:
    claim = service.store.claim(2, api.address, {})
    counters = {"dead_letters": 3, "dead_letters: decode: BadRecord": 3, "misplaced_keys": 2, "late": 4}
    service.store.commit(Commit(claim, [OffsetAdvance("numbers", None, 17)], [], counters))
    text = scrape(api.client)
    assert sample(text, "streamstate_offset", topic="numbers", partition="2") == 17
    assert sample(text, "streamstate_dead_letters_total", partition="2") == 3
    assert sample(text, "streamstate_misplaced_keys_total", partition="2") == 2
    assert sample(text, "streamstate_counted_total", partition="2", what="late") == 4
    assert sample(text, "streamstate_dead_letters_total", partition="1") == 0
    assert sample(text, "streamstate_counted_total", partition="1", what="late_records") == 0
    assert "BadRecord" not in text
    (told,) = [one for one in api.client.get("/processors").get_json()["partitions"] if one["partition"] == 2]
    assert (told["dead_letters"], told["dead_letter_reasons"]) == (3, {"decode: BadRecord": 3})


def test_a_view_of_all_partitions_is_answered_by_any_instance(service: Service) -> None:
    first, second = service.instance(), service.instance()
    service.own(first.address)
    for key, times in ((1, 2), (2, 3), (3, 4), (1, 1)):
        service.count("numbers", key, times)
    for instance in (first, second):
        assert instance.client.get("/v1/all").get_json() == {"counts": {"1": 3, "2": 3, "3": 4}}
        response = instance.client.get("/v1/sum/1", headers={"X-Direct": "1"})
        assert response.get_json() == {"key": "1", "count": 3}
        assert response.headers["Served-By"] == instance.address
        problem(instance.client.get("/v1/sum/none"), 404, "unknown-key")


def test_a_view_gets_the_parameters_of_the_request(service: Service, api: Instance) -> None:
    service.count("numbers", 1, 3)
    service.count("numbers", 2, 5)
    assert api.client.get("/v1/all?least=4").get_json() == {"counts": {"2": 5}}
    assert api.client.get("/v1/above/1?least=3").status_code == 200
    problem(api.client.get("/v1/above/1?least=4"), 404, "unknown-key")
    assert api.client.get("/v1/many?above=1").get_json() == {"above": {"1": {"key": "1", "count": 3}}}
    problem(api.client.get("/v1/many?sum=1"), 400, "bad-query")


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/v1/numbers/7?at=1", "at is no parameter here; there are none"),
        ("/v1/all?leest=3", "leest is no parameter here; did you mean least?"),
        ("/v1/above/1?least=3&Least=4", "Least is no parameter here; did you mean least?"),
        ("/v1/all?", ""),
        ("/processors?at=1", "did you mean memory?"),
        ("/v1/all?" + "a" * 8_000 + "=1", "a…"),
        ("/readyz?at=1", ""),
    ],
)
def test_a_parameter_that_is_unknown_is_refused_with_the_nearest(api: Instance, path: str, advice: str) -> None:
    response = api.client.get(path)
    if advice:
        detail = problem(response, 400, "bad-parameter")["detail"]
        assert advice in detail
        assert len(detail) < 120
    else:
        assert response.status_code == 200
