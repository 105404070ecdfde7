"""The recommender over HTTP: parameters, the fallback, explanations, status."""

from dataclasses import dataclass
from typing import Any

import pytest
from werkzeug.test import Client

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.answers import AllRecommendations, Recommendations
from services.recommendations.api import Pool, build
from services.recommendations.live import Live, warm_up
from services.recommendations.model import app
from services.recommendations.settings import PoolSettings, WindowSettings
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryReader, MemoryStore
from streamstate.web.freshness import Freshness
from tests.contract import hold
from tests.raw import Play
from tests.serving import FixedTopics, Loop, Wsgi, sample, scrape
from tests.unit.recommendations.following import PARTITIONS, WINDOW, driver, fold, records

ME, STRANGER = 1, 4711
# User 1 shares artist 7 with users 2 and 3, who also play 8 (both of them) and 9.
PLAYS: list[Play] = [
    (1, 7, 17, 27, 0), (2, 7, 17, 27, 0), (2, 8, 18, 28, 0), (3, 7, 17, 27, 0), (3, 8, 18, 28, 0), (3, 9, 19, 29, 0),
]  # fmt: skip


@dataclass
class Recommender:
    store: MemoryStore
    live: Live
    client: Client
    wsgi: Wsgi

    def get(self, path: str, status: int = 200) -> Any:
        response = self.client.get(f"/v1/users/{path}")
        assert response.status_code == status
        return response.get_json(force=True)

    def follow(self) -> None:
        while self.live.step():
            pass


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No request waits for the compiler."""
    warm_up()


@pytest.fixture
def starting(loop: Loop) -> Recommender:
    """Before anything was read."""
    store, topics = MemoryStore(), FixedTopics({LISTENING_EVENTS: PARTITIONS})
    live, freshness = Live(store, WINDOW), Freshness(topics, [LISTENING_EVENTS])
    pool = Pool(load(PoolSettings))
    api = build(app(load(WindowSettings)), load(ApiSettings), MemoryReader(store), freshness, live, pool)
    wsgi = loop.wsgi(api)
    return Recommender(store, live, Client(wsgi), wsgi)


@pytest.fixture
def recommender(starting: Recommender) -> Recommender:
    fold(driver(starting.store), records(PLAYS))
    starting.follow()
    return starting


@pytest.mark.parametrize(("kind", "expected"), list(zip(KINDS, ([8, 9], [18, 19], [28, 29]), strict=True)))
def test_items_come_best_first_without_those_that_are_known(
    recommender: Recommender, kind: str, expected: list[int]
) -> None:
    found = recommender.get(f"{ME}/recommendations/{kind}?seed=1")
    assert [item["id"] for item in found["items"]] == expected
    assert found["items"][0]["score"] > found["items"][1]["score"]
    assert {name: found[name] for name in ("userId", "walks", "partial", "fallback")} == {
        "userId": ME, "walks": 1_000, "partial": False, "fallback": None,
    }  # fmt: skip
    assert "via" not in found["items"][0]


def test_parameters_are_heeded(recommender: Recommender) -> None:
    path = f"{ME}/recommendations/artists"
    assert len(recommender.get(f"{path}?limit=1")["items"]) == 1
    assert recommender.get(f"{path}?walks=7")["walks"] == 7
    assert recommender.get(f"{path}?walkLength=1")["fallback"] == "popular"
    assert recommender.get(f"{path}?resetProbability=1")["fallback"] == "popular"
    assert recommender.get(f"{path}?walks=10000&limit=1&earlyStop=true")["walks"] < 10_000


def test_a_user_without_plays_gets_what_is_popular_and_is_told_so(recommender: Recommender) -> None:
    found = recommender.get(f"{STRANGER}/recommendations/artists?limit=2")
    assert found == {
        "userId": STRANGER, "walks": 0, "partial": False, "fallback": "popular",
        "items": [{"id": 7, "score": 3}, {"id": 8, "score": 2}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("limit=0", "limit"), ("limit=-1", "limit"), ("limit=1000000000", "limit"), ("limit=1;2", "limit"),
        ("limit=", "limit"), ("limit=1.5", "limit"), ("limit=1_0", "limit"), (f"limit={'9' * 4000}", "limit"),
        ("limit=1&limit=2", "limit"), ("limit=%D9%A1", "limit"), ("walks=0", "walks"), ("walks=100001", "walks"),
        ("walkLength=0", "walkLength"), ("walkLength=1001", "walkLength"),
        ("walks=10001&walkLength=100", "walks x walkLength"), ("resetProbability=-0.1", "resetProbability"),
        ("resetProbability=1.1", "resetProbability"), ("resetProbability=nan", "resetProbability"),
        ("resetProbability=inf", "resetProbability"), ("resetProbability=x", "resetProbability"),
        ("seed=-1", "seed"), ("seed=9223372036854775808", "seed"), ("earlyStop=maybe", "earlyStop"),
        ("explain=2", "explain"),
    ],
)  # fmt: skip
def test_a_parameter_beyond_its_limits_is_400_and_named(recommender: Recommender, query: str, name: str) -> None:
    problem = recommender.get(f"{ME}/recommendations/tracks?{query}", 400)
    assert problem["type"] == "urn:streamstate:problem:bad-parameter"
    assert problem["detail"].startswith(name)


def test_the_time_that_the_caller_allows_ends_the_walks(recommender: Recommender) -> None:
    response = recommender.client.get(
        f"/v1/users/{ME}/recommendations/tracks?walks=100000&walkLength=10", headers={"X-Deadline-Ms": "2"}
    )
    assert response.status_code == 504 or response.get_json()["partial"]


def test_not_ready_with_progress_until_the_graph_is_loaded(starting: Recommender) -> None:
    for path in ("/readyz", f"/v1/users/{ME}/recommendations/tracks"):
        response = starting.client.get(path)
        assert (response.status_code, response.get_json(force=True)["progress"]) == (503, 0)
        assert "Retry-After" in response.headers
    assert starting.client.get("/livez").status_code == 200
    fold(driver(starting.store), records(PLAYS))
    starting.follow()
    assert starting.client.get("/readyz").status_code == 200


def test_the_graph_is_measured(recommender: Recommender) -> None:
    text = scrape(recommender.client)
    assert sample(text, "recommendations_graph_edges", kind="tracks") == len(PLAYS)
    assert sample(text, "recommendations_graph_nodes", kind="users") == 3
    assert (sample(text, "recommendations_graph_bytes_per_million_events") or 0) > 1e6
    lags = [sample(text, "recommendations_graph_lag", partition=str(p)) for p in range(PARTITIONS)]
    assert lags == [0] * PARTITIONS
    fold(driver(recommender.store), records([*PLAYS, (ME, 1, 1, 1, 0)]))
    text = scrape(recommender.client)
    assert sum(sample(text, "recommendations_graph_lag", partition=str(p)) or 0 for p in range(PARTITIONS)) > 0


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest deadline, for requests started from now on."""
    monkeypatch.setenv("STREAMSTATE_DEADLINE_MS", "10")


@pytest.mark.usefixtures("hasty")
def test_what_is_answered_is_what_the_document_says(recommender: Recommender) -> None:
    hold(recommender.wsgi)


def test_all_kinds_are_answered_at_once_and_lists_that_are_popular_are_named(recommender: Recommender) -> None:
    mine, popular = (recommender.get(f"{user}/recommendations") for user in (ME, STRANGER))
    assert [item["id"] for item in mine["artistRecommendations"]] == [8, 9]
    assert (mine["userId"], mine["fallbacks"], mine["warnings"]) == (ME, [], [])
    assert popular["fallbacks"] == ["artistRecommendations", "albumRecommendations", "trackRecommendations"]


def test_lists_whose_time_ended_early_are_named() -> None:
    by_kind = {kind: Recommendations(ME, [], 5, kind == "tracks", None) for kind in KINDS}
    assert AllRecommendations.from_kinds(ME, by_kind).warnings == ["trackRecommendations: partial, time ran out"]
