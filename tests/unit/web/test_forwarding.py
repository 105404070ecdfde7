"""A request for a key that another instance owns, and keys in paths."""

from urllib.parse import quote

import pytest

from devkit.servers.child_process import free_port
from streamstate.web.http.request import path_of
from tests.serving import sample, scrape
from tests.unit.web.conftest import Instance, Service
from tests.unit.web.test_api import problem

DIRECT = {"X-Direct": "1"}


def passed_on(instance: Instance) -> float | None:
    return sample(scrape(instance.client), "streamstate_forwarded_requests_total")


def stood_in(instance: Instance) -> float | None:
    return sample(scrape(instance.client), "streamstate_stood_in_requests_total")


def test_a_direct_request_is_421_and_names_the_owner(service: Service, api: Instance) -> None:
    service.own("10.0.0.9:8101")
    partition = service.count("numbers", 7)
    for path in ("/v1/numbers/7", "/v1/many?numbers=7"):
        body = problem(api.client.get(path, headers=DIRECT), 421, "not-the-owner")
        assert (body["owner"], body["partition"]) == ("10.0.0.9:8101", partition)
    assert passed_on(api) == 0


def test_a_request_is_passed_on_to_the_owner_with_its_query(service: Service, api: Instance) -> None:
    owner, served = service.served()
    service.own(owner.address)
    service.count("numbers", 7)
    response = api.client.get("/v1/above/7?least=1")
    assert (response.status_code, response.get_json()) == (200, {"key": "7", "count": 1})
    assert response.headers["Served-By"] == owner.address
    assert served.seen == ["/v1/above/7?least=1"]
    assert (passed_on(api), passed_on(owner)) == (1, 0)


def test_many_keys_are_answered_from_the_state_whoever_owns_them(service: Service, api: Instance) -> None:
    service.own(f"127.0.0.1:{free_port()}")
    service.count("numbers", 7)
    assert api.client.get("/v1/many?numbers=7").get_json() == {"numbers": {"7": {"key": "7", "count": 1}}}
    assert passed_on(api) == 0


def test_a_stopped_owner_is_stood_in_for(service: Service, api: Instance) -> None:
    owner, served = service.served()
    service.own(owner.address)
    service.count("numbers", 7)
    assert api.client.get("/v1/numbers/7").headers["Served-By"] == owner.address
    assert stood_in(api) == 0
    served.stop()
    assert api.client.get("/v1/numbers/7").headers["Served-By"] == "standby"
    assert stood_in(api) == 1


@pytest.mark.parametrize("key", ["a/b", "/", "a%2Fb", "?", "#", "a b", "ä/é", ".", "a\\b", "%", "a;b=c"])
def test_any_text_is_a_key_in_a_path(api: Instance, service: Service, key: str) -> None:
    service.count("words", key, owner=api.address)
    answer = api.client.get(f"/v1/words/{quote(key, safe='')}")
    assert answer.get_json() == {"key": key, "count": 1}


@pytest.mark.parametrize("key", ["1%3Fx", "a%2Fb", "1%23", "%25"])
def test_options_of_any_key_are_told(api: Instance, key: str) -> None:
    response = api.client.options(f"/v1/words/{key}")
    assert (response.status_code, "GET" in response.headers["Allow"]) == (200, True)


def test_another_instance_is_asked_for_a_key_with_a_slash_as_it_came(service: Service) -> None:
    owner, served = service.served()
    service.own(owner.address)
    service.count("words", "a/b")
    assert service.instance().client.get("/v1/words/a%2fb").get_json() == {"key": "a/b", "count": 1}
    assert served.seen == ["/v1/words/a/b"]  # decoded by the server of the test
    assert service.instance().client.get("/v1/words/a/b").status_code == 404


@pytest.mark.parametrize("path", [b"/v1/words/%ff", b"/v1/words/a%C3", b"/%c0%ae/livez"])
def test_a_path_that_is_no_utf_8_is_refused(path: bytes) -> None:
    assert path_of({"raw_path": path}) == ""
