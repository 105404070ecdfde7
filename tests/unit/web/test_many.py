"""Many keys at once, of one or several views."""

from typing import Any

import pytest

from tests.unit.web.conftest import Instance, Service
from tests.unit.web.test_api import problem


def test_many_keys_are_answered_at_once(service: Service, api: Instance) -> None:
    for number in range(8):
        service.count("numbers", number, number + 1)
    service.count("words", "a b")
    response = api.client.get("/v1/many?numbers=0&numbers=7&words=a+b&numbers=99&words=c")
    assert response.get_json() == {
        "numbers": {"0": {"key": "0", "count": 1}, "7": {"key": "7", "count": 8}, "99": None},
        "words": {"a b": {"key": "a b", "count": 1}, "c": None},
    }
    assert response.headers["Served-By"] == api.address


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


def test_a_key_that_is_asked_twice_is_answered_once(service: Service, api: Instance) -> None:
    service.count("numbers", 7)
    assert api.client.get("/v1/many?numbers=7&numbers=7").get_json() == {"numbers": {"7": {"key": "7", "count": 1}}}


@pytest.mark.parametrize("query", ["", "users=1", "numbers=1&users=1", "&".join(f"numbers={n}" for n in range(201))])
def test_a_query_for_many_that_is_none_is_400(api: Instance, query: str) -> None:
    detail = problem(api.client.get(f"/v1/many?{query}"), 400, "bad-query")["detail"]
    assert "1 to 200 keys" in detail
    assert "numbers, words" in detail


def test_one_bad_key_among_many_is_400(api: Instance) -> None:
    problem(api.client.get("/v1/many?numbers=1&numbers=1_000"), 400, "bad-key")


def test_many_keys_keep_the_deadline_rules(api: Instance) -> None:
    problem(api.client.get("/v1/many?numbers=1", headers={"X-Deadline-Ms": "soon"}), 400, "bad-deadline")
