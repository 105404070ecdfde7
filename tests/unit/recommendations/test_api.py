"""The recommender over HTTP: parameters, the fallback, explanations, status."""

from operator import eq
from typing import Any

import pytest

from services.events import KINDS
from services.recommendations.answers import AllRecommendations, Parameters, Recommendations
from services.recommendations.control.exclusions import Control
from services.recommendations.graph.bipartite import Graph
from services.recommendations.graph.live import warm_up
from services.recommendations.kept import KeptLists, Walked
from services.recommendations.queries import Query, slot_seed
from services.recommendations.walks.salsa import WALKS, Recommendation
from tests.contract import hold
from tests.raw import Play
from tests.serving import Loop, sample, scrape
from tests.unit.recommendations.following import PARTITIONS, driver, fold, records
from tests.unit.recommendations.serving import ME, PLAYS, STRANGER, Recommender, served

STABLE_S = 60


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No request waits for the compiler."""
    warm_up()


@pytest.fixture
def starting(loop: Loop) -> Recommender:
    """Before anything was read."""
    return served(loop)


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
        "userId": ME, "walks": WALKS, "partial": False, "fallback": None,
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
        ("explain=2", "explain"), ("starts=artists", "starts"), ("starts=artists:1:0", "starts"),
        ("starts=users:2", "starts"), (f"starts={'user,' * 20}user", "starts"), ("starts=user&explain=true", "explain"),
        ("starts=artists:9223372036854775808", "starts"), ("exclude=1,,2", "exclude"), ("exclude=01", "exclude"),
        ("exclude=9223372036854775808", "exclude"), ("recency=-1", "recency"), ("recency=11", "recency"),
    ],
)  # fmt: skip
def test_a_parameter_beyond_its_limits_is_400_and_named(recommender: Recommender, query: str, name: str) -> None:
    problem = recommender.get(f"{ME}/recommendations/tracks?{query}", 400)
    assert problem["type"] == "urn:streamstate:problem:bad-parameter"
    assert problem["detail"].startswith(name)


def test_items_similar_to_an_item_are_those_of_its_listeners(recommender: Recommender) -> None:
    def similar(path: str, status: int = 200) -> Any:
        response = recommender.client.get(f"/v1/{path}")
        assert response.status_code == status
        return response.get_json(force=True)

    found = similar("albums/17/similar")
    assert [item["id"] for item in found["items"]] == [18, 19]
    assert (found["id"], found["walks"], found["partial"]) == (17, WALKS, False)
    assert similar("artists/4711/similar") == {"id": 4711, "items": [], "walks": 0, "partial": False}
    assert [item["id"] for item in similar("artists/7/similar?starts=tracks:29")["items"]] == [8, 9]
    assert similar("artists/7/similar?starts=user", 400)["detail"].startswith("starts")


def test_starts_take_the_place_of_the_user_and_excluded_items_are_left_out(recommender: Recommender) -> None:
    path = f"{STRANGER}/recommendations/artists"
    found = recommender.get(f"{path}?starts=artists:8:0.7,tracks:29:0.3")
    assert (sorted(item["id"] for item in found["items"]), found["fallback"]) == ([7, 9], None)
    assert [item["id"] for item in recommender.get(f"{ME}/recommendations/artists?exclude=8,5")["items"]] == [9]
    assert [item["id"] for item in recommender.get(f"{path}?exclude=7")["items"]] == [8, 9]
    assert recommender.get(f"{path}?starts=user,artists:4711")["fallback"] == "popular"


def test_lists_stay_the_same_for_a_time_slot(monkeypatch: pytest.MonkeyPatch, loop: Loop) -> None:
    steady = served(loop, stable_s=STABLE_S)
    fold(driver(steady.store), records(PLAYS))
    steady.follow()
    now = 1_000_000.0
    monkeypatch.setattr("time.time", lambda: now)

    def scores(query: str = "") -> Any:
        return steady.get(f"{ME}/recommendations/artists{query}")["items"]

    first = scores()
    assert [scores() for _ in range(5)] == [first] * 5
    assert steady.get(f"{ME}/recommendations")["artistRecommendations"] == first
    assert scores("?seed=5") != first
    now += STABLE_S
    assert scores() != first


def test_a_list_stays_while_others_play_and_changes_with_the_users_own_plays(loop: Loop) -> None:
    steady = served(loop, stable_s=STABLE_S)
    played: list[Play] = []

    def play(*plays: Play) -> None:
        played.extend(plays)
        fold(driver(steady.store), records(played))
        steady.follow()

    def lists(query: str) -> list[Any]:
        similar = steady.client.get(f"/v1/artists/7/similar{query}").get_json()["items"]
        return [steady.get(f"{ME}/recommendations/artists{query}")["items"], similar]

    play(*PLAYS)
    whole, short, seeded = (lists(query) for query in ("?limit=2", "?limit=3", "?limit=2&seed=5"))
    play(
        *[(user, artist, artist + 10, artist + 20, 0) for user in (2, 3, 4) for artist in (7, 9, 10) for _ in range(9)]
    )
    assert lists("?limit=2") == whole
    assert lists("?limit=2&walks=319") != whole
    assert lists("?limit=2&exclude=8")[0] != whole[0]
    assert not any(map(eq, short + seeded, lists("?limit=3") + lists("?limit=2&seed=5")))
    play((ME, 9, 19, 29, 0))
    mine, similar = lists("?limit=2")
    assert [item["id"] for item in mine] == [10, 8]
    assert similar == whole[1]


@pytest.mark.parametrize(
    "path", ["artists?limit=1", "artists?limit=1&explain=true", "artists?limit=1&starts=artists:9"]
)
def test_a_fallback_ends_with_the_first_walk_that_meets_something_new(loop: Loop, path: str) -> None:
    steady = served(loop, stable_s=STABLE_S)
    played: list[Play] = [(ME, 7, 17, 27, 0), (2, 8, 18, 28, 0)]

    def fallback(*plays: Play) -> Any:
        played.extend(plays)
        fold(driver(steady.store), records(played))
        steady.follow()
        return steady.get(f"{ME}/recommendations/{path}")["fallback"]

    assert [fallback(), fallback()] == ["popular"] * 2
    assert fallback((2, 7, 17, 27, 0), (2, 9, 19, 29, 0)) is None


def test_the_fallback_of_all_kinds_is_not_kept_either(loop: Loop) -> None:
    steady = served(loop, stable_s=STABLE_S)
    crowd: list[Play] = [(2, item, item, item, 0) for item in range(10, 20)]
    lists = []
    for others in ([], [(2, 7, 7, 7, 0)]):
        fold(driver(steady.store), records([(ME, 7, 7, 7, 0), *crowd, *others]))
        steady.follow()
        lists.append(steady.get(f"{ME}/recommendations")["artistRecommendations"])
    # The fallback counts listeners, of which each item has one; a walk counts visits.
    assert {item["score"] for item in lists[0]} == {1}
    assert {item["score"] for item in lists[1]} != {1}


def test_a_partial_list_is_not_kept() -> None:
    kept, query = (
        KeptLists(Graph(KINDS, 1)),
        Query("tracks", Parameters(limit=1), ME, STABLE_S, Control(), of_item=False),
    )
    kept.keep("partial", query, Walked(Recommendation([(1, 1)], WALKS, partial=True), {0: 1}))
    assert kept.get("partial") is None


def test_a_kept_list_says_its_position_and_a_demand_makes_a_new_list(loop: Loop) -> None:
    steady = served(loop, stable_s=STABLE_S)
    played = [*PLAYS]

    def positions_of(path: str, **headers: str) -> str:
        fold(driver(steady.store), records(played))
        steady.follow()
        return steady.client.get(f"/v1/users/{ME}/recommendations/{path}", headers=headers).headers["Position"]

    first = positions_of("artists?limit=1")
    played += [(2, 11, 21, 31, 0)] * 5
    assert positions_of("artists?limit=1") == first
    newest = positions_of("albums?limit=1")
    assert newest != first
    assert positions_of("artists?limit=1", **{"X-Min-Position": newest}) == newest
    assert positions_of("artists?limit=1") == newest


def test_no_list_of_a_graph_outlives_the_graph(loop: Loop) -> None:
    steady = served(loop, stable_s=STABLE_S)
    lists = []
    for others in ([(2, 8, 8, 8, 0)], [(2, 9, 9, 9, 0)]):
        fold(driver(steady.store), records([(ME, 7, 7, 7, 0), (2, 7, 7, 7, 0), *others]))
        steady.follow()
        lists.append([item["id"] for item in steady.get(f"{ME}/recommendations/artists?limit=1")["items"]])
        steady.store.empty()
    assert lists == [[8], [9]]


def test_explanations_are_kept_with_a_list(loop: Loop) -> None:
    steady = served(loop, stable_s=STABLE_S)
    fold(driver(steady.store), records([*PLAYS, *[(2, item, item, item, 0) for item in range(10, 20)]]))
    steady.follow()
    for _ in range(2):
        plain, why = (steady.get(f"{ME}/recommendations{query}") for query in ("", "?explain=true"))
        assert len(plain["artistRecommendations"]) == 10
        assert not any("why" in item for item in plain["artistRecommendations"])
        assert all(item["why"] for item in why["artistRecommendations"])


def test_kept_lists_have_a_bound() -> None:
    kept, asked = KeptLists(Graph(KINDS, 1), 125), Parameters(limit=10, exclude="1,2,3,4,5")
    found = Recommendation([(item, 1) for item in range(10)], WALKS, explanations={1: [(1, 1)] * 5})
    for name in range(20):
        query = Query("tracks", asked, name, STABLE_S, Control(), of_item=False)
        kept.keep(name, query, Walked(found, dict.fromkeys(range(5), 1)))
    assert [name for name in range(20) if kept.get(name)] == [15, 16, 17, 18, 19]


def test_lists_change_one_after_another_and_in_each_slot() -> None:
    at = {user: [slot_seed(f"{user}", STABLE_S, now) for now in range(2 * STABLE_S)] for user in range(50)}
    changes = [next(now for now in range(STABLE_S) if seeds[now] != seeds[now + 1]) for seeds in at.values()]
    assert len(set(changes)) > 10
    assert all(len(set(seeds)) == 3 or seeds[0] != seeds[STABLE_S] for seeds in at.values())
    assert slot_seed("1", 0, 5.0) is None


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


def test_what_is_answered_is_what_the_document_says(
    recommender: Recommender, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMSTATE_DEADLINE_MS", "10")
    hasty = served(loop)
    fold(driver(hasty.store), records(PLAYS))
    hasty.follow()
    hold(hasty.wsgi, recommender.wsgi)


def test_all_kinds_are_answered_at_once_and_lists_that_are_popular_are_named(recommender: Recommender) -> None:
    mine, popular = (recommender.get(f"{user}/recommendations") for user in (ME, STRANGER))
    assert [item["id"] for item in mine["artistRecommendations"]] == [8, 9]
    assert (mine["userId"], mine["fallbacks"], mine["warnings"]) == (ME, [], [])
    assert popular["fallbacks"] == ["artistRecommendations", "albumRecommendations", "trackRecommendations"]


def test_lists_whose_time_ended_early_are_named() -> None:
    by_kind = {kind: Recommendations(ME, [], 5, kind == "tracks", None) for kind in KINDS}
    assert AllRecommendations.from_kinds(ME, by_kind).warnings == ["trackRecommendations: partial, time ran out"]
