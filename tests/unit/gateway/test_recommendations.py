"""Recommendations at the gateway: any instance answers, names are joined, a part that fails is named."""

from typing import Any

import pytest

from services.events import KINDS
from services.recommendations.answers import member
from tests.unit.gateway.deployment import USER, Services

ALL = [member(kind) for kind in KINDS]


def artists(deployment: Services, query: str = "") -> Any:
    return deployment.gateway().get(f"/v1/users/{USER}/recommendations/artists{query}").get_json(force=True)


def test_names_are_joined(deployment: Services) -> None:
    deployment.name("artists", 5, "The Time")
    found = artists(deployment, "?seed=1&explain=true")
    (item,) = found["items"]
    assert (item["id"], item["name"]) == (5, "The Time")
    assert item["via"] == [{"id": 1, "name": "Prince", "visits": item["score"]}]
    assert {name: found[name] for name in ("userId", "walks", "partial", "fallback", "warnings")} == {
        "userId": USER, "walks": 1_000, "partial": False, "fallback": None, "warnings": [],
    }  # fmt: skip


def test_the_instances_take_turns(deployment: Services) -> None:
    gateway = deployment.gateway()
    for _ in range(6):
        gateway.get(f"/v1/users/{USER}/recommendations/artists")
    assert [sum("recommendations" in path for path in one.seen) for one in deployment.at["recommendations"]] == [3, 3]


@pytest.mark.parametrize("number", [0, 1])
def test_another_instance_is_asked_when_one_is_gone(deployment: Services, number: int) -> None:
    gateway = deployment.gateway()
    assert gateway.get(f"/v1/users/{USER}/recommendations/artists").status_code == 200
    deployment.at["recommendations"][number].stop()
    for _ in range(4):
        assert gateway.get(f"/v1/users/{USER}").get_json()["warnings"] == []


def test_another_instance_is_asked_when_one_is_not_ready(deployment: Services) -> None:
    deployment.start_recommendations(1)
    deployment.play([(USER, 1, 1, 1, 1)])
    ready = deployment.at["recommendations"][0]
    deployment.graphs.clear()
    loading = deployment.add_recommender()
    for _ in range(4):
        assert artists(deployment)["userId"] == USER
    ready.stop()
    response = deployment.gateway().get(f"/v1/users/{USER}/recommendations/artists")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert "being loaded" in response.get_json(force=True)["detail"]
    assert loading.seen


def test_without_recommendations_the_profile_stands(deployment: Services) -> None:
    gateway = deployment.gateway()
    gateway.get(f"/v1/users/{USER}")
    for one in deployment.at["recommendations"]:
        one.stop()
    found = gateway.get(f"/v1/users/{USER}").get_json()
    assert found["eventCount"] == 3
    assert found["topTenArtists"][0]["name"] == "Prince"
    assert [found[name] for name in ALL] == [[], [], []]
    assert [warning.partition(":")[0] for warning in found["warnings"]] == ALL


def test_all_names_of_a_profile_are_asked_for_in_one_call(deployment: Services) -> None:
    deployment.gateway().get(f"/v1/users/{USER}")
    assert sum(path.startswith("/v1/many") for path in deployment.at["names"][0].seen) == 1
