"""How fresh an answer is, told and demanded."""

import threading
import time

import pytest

from streamstate.keys import LONG, partition_of
from streamstate.web.freshness import age
from tests.serving import sample, scrape
from tests.unit.web.conftest import COUNTS, Instance, Service
from tests.unit.web.test_api import problem

ONE, OTHER = ("numbers", 1), ("words", 0)
KEY = 7
PLACE = ("numbers", partition_of(LONG.encode(KEY), COUNTS["numbers"]))


class TestAge:
    def test_a_state_at_the_end_is_as_old_as_the_look(self) -> None:
        looks = [(100.0, {ONE: 40})]
        assert age(looks, 100.5, {ONE: 40}) == 0.5
        assert age(looks, 100.5, {ONE: 41}) == 0.5

    def test_a_state_behind_is_as_old_as_the_last_moment_at_which_it_was_whole(self) -> None:
        looks = [(100.0 + second, {ONE: end}) for second, end in enumerate([40, 50, 60])]
        assert [age(looks, 103.0, {ONE: position}) for position in (60, 59, 50, 40)] == [1.0, 2.0, 2.0, 3.0]

    def test_the_age_of_a_state_behind_all_that_was_seen_is_unknown(self) -> None:
        looks = [(100.0, {ONE: 40}), (101.0, {ONE: 50})]
        assert age(looks, 103.0, {ONE: 39}) is None
        assert age(looks, 103.0, {ONE: 40}) == 3.0

    def test_the_oldest_of_several_topics_counts(self) -> None:
        looks = [(100.0, {ONE: 40, OTHER: 7}), (101.0, {ONE: 40, OTHER: 8})]
        assert age(looks, 102.0, {ONE: 40, OTHER: 7}) == 2.0

    def test_the_age_is_unknown_until_all_ends_were_seen(self) -> None:
        looks = [(100.0, {ONE: 40})]
        assert age(looks, 100.0, {ONE: 40, OTHER: 7}) is None
        assert age(looks, 100.0, {}) is None
        assert age([], 100.0, {ONE: 40}) is None


def demand(**headers: str) -> dict[str, str]:
    return {"X-" + name.replace("_", "-"): value for name, value in headers.items()} | {"X-Deadline-Ms": "400"}


def test_an_answer_tells_position_and_age_of_its_state(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    headers = api.client.get(f"/v1/numbers/{KEY}").headers
    assert f"numbers:{PLACE[1]}=1" in headers["Position"]
    assert "State-Age-Ms" not in headers
    service.topics.written[PLACE] = 1
    service.freshness.refresh()
    assert int(api.client.get(f"/v1/numbers/{KEY}").headers["State-Age-Ms"]) < 400


def test_the_age_of_each_partition_is_scraped_and_grows_beyond_what_was_seen(service: Service, api: Instance) -> None:
    service.topics.written[PLACE] = 1
    service.freshness.refresh()
    time.sleep(0.05)
    service.freshness.refresh()
    scraped = scrape(api.client)
    behind, complete = (
        sample(scraped, "streamstate_state_age_seconds", partition=str(partition))
        for partition in (PLACE[1], (PLACE[1] + 1) % COUNTS["numbers"])
    )
    assert behind is not None
    assert complete is not None
    assert behind > complete + 0.04


def test_a_write_is_waited_for(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    writer = threading.Timer(0.15, service.count, ("numbers", KEY))
    writer.start()
    wanted = f"{PLACE[0]}:{PLACE[1]}=2"
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Min_Position=wanted))
    writer.join()
    assert response.get_json() == {"key": str(KEY), "count": 2}


def test_a_position_that_does_not_come_is_a_503_that_says_how_far_it_is(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    started = time.monotonic()
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Min_Position=f"numbers:{PLACE[1]}=10"))
    assert "9 records before" in problem(response, 503, "not-ready")["detail"]
    assert response.headers["Retry-After"] == "1"
    assert 0.2 < time.monotonic() - started < 0.4


def test_a_state_that_is_current_now_is_fresh_whatever_was_seen_before(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    service.topics.written[PLACE] = 1
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Max_Staleness="100"))
    assert response.status_code == 200
    assert int(response.headers["State-Age-Ms"]) <= 100


def test_a_state_that_stays_behind_is_refused_where_a_fresh_one_is_demanded(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    service.topics.written[PLACE] = 5
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Max_Staleness="100"))
    assert "long been behind" in problem(response, 503, "not-ready")["detail"]


@pytest.mark.parametrize("text", ["x", "numbers:1", "numbers:a=1", "numbers:1=-1", "numbers:1=1,", "1=1", "n:\uff11=1"])
def test_a_demand_that_cannot_be_read_is_400(api: Instance, text: str) -> None:
    headers = {"X-Min-Position": text.encode().decode("latin-1")}
    assert (
        "topic:partition=offset"
        in problem(api.client.get("/v1/numbers/7", headers=headers), 400, "bad-demand")["detail"]
    )


def test_a_position_that_is_demanded_twice_must_reach_the_greater_one(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    demanded = f"numbers:{PLACE[1]}={{}}, numbers:{PLACE[1]}={{}}"
    for one, other, status in ((1, 1, 200), (2, 1, 503), (1, 2, 503)):
        headers = demand(Min_Position=demanded.format(one, other), Deadline_Ms="10")
        assert api.client.get(f"/v1/numbers/{KEY}", headers=headers).status_code == status
