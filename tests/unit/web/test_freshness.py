"""How fresh an answer is, told and demanded."""

import re
import threading

import pytest

from streamstate.keys import LONG, partition_of
from streamstate.web import freshness
from streamstate.web.freshness import age
from tests.serving import sample, scrape
from tests.unit.web.conftest import COUNTS, Instance, Service
from tests.unit.web.test_api import problem
from tests.waiting import now_s, pause

ONE, OTHER = ("numbers", 1), ("words", 0)
KEY = 7
PLACE = ("numbers", partition_of(LONG.encode(KEY), COUNTS["numbers"]))


@pytest.mark.parametrize(
    ("looks", "now", "positions", "expected"),
    [
        # At the end, it is as old as the look; behind, as the last moment at which it was whole.
        ([{ONE: 40}], 100.5, {ONE: 40}, 0.5),
        ([{ONE: 40}], 100.5, {ONE: 41}, 0.5),
        *(([{ONE: 40}, {ONE: 50}, {ONE: 60}], 103, {ONE: at}, s) for at, s in ((60, 1), (59, 2), (50, 2), (40, 3))),
        # The oldest topic counts.
        ([{ONE: 40, OTHER: 7}, {ONE: 40, OTHER: 8}], 102, {ONE: 40, OTHER: 7}, 2),
        # Behind all that was seen, and until all ends were seen, it is unknown.
        ([{ONE: 40}, {ONE: 50}], 103, {ONE: 39}, None),
        ([{ONE: 40}], 100, {ONE: 40, OTHER: 7}, None),
        ([{ONE: 40}], 100, {}, None),
        ([], 100, {ONE: 40}, None),
    ],
)
def test_the_age_of_a_state(
    looks: list[dict[tuple[str, int], int]], now: float, positions: dict[tuple[str, int], int], expected: float | None
) -> None:
    assert age([(100.0 + second, ends) for second, ends in enumerate(looks)], now, positions) == expected


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


def test_an_unknown_key_tells_the_age_of_an_old_state(
    service: Service, api: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def detail() -> str:
        text: str = problem(api.client.get(f"/v1/numbers/{KEY}"), 404, "unknown-key")["detail"]
        return text

    # Before the ends are read, and in a complete state, nothing is said of the age.
    assert detail().endswith("ask again later")
    service.freshness.refresh()
    assert detail().endswith("ask again later")
    service.topics.written[PLACE] = 5
    service.freshness.refresh()
    monkeypatch.setattr(freshness, "RECENT_S", 0.0)
    assert re.search(r"ask again later: the state is \d+ ms old$", detail())


def test_the_age_of_each_partition_is_scraped_and_grows_beyond_what_was_seen(service: Service, api: Instance) -> None:
    service.topics.written[PLACE] = 1
    service.freshness.refresh()
    pause(0.05)
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
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Min_Position=wanted) | {"X-Deadline-Ms": "60000"})
    writer.join()
    assert response.get_json() == {"key": str(KEY), "count": 2}


def test_a_position_that_does_not_come_is_a_503_that_says_how_far_it_is(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    started = now_s()
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Min_Position=f"numbers:{PLACE[1]}=10"))
    assert "9 records before" in problem(response, 503, "not-ready")["detail"]
    assert response.headers["Retry-After"] == "1"
    assert now_s() - started > 0.2


def test_a_position_behind_the_end_of_the_topic_is_a_400_that_says_the_end(service: Service, api: Instance) -> None:
    service.count("numbers", KEY)
    service.topics.written[PLACE] = 1
    refresh = threading.Timer(0.1, service.freshness.refresh)
    refresh.start()
    response = api.client.get(f"/v1/numbers/{KEY}", headers=demand(Min_Position=f"numbers:{PLACE[1]}=10"))
    refresh.join()
    assert f"numbers:{PLACE[1]} ends at 1; after a topic" in problem(response, 400, "bad-demand")["detail"]


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
