"""Profiles and the recommender's graph, held against the topics."""

from collections import defaultdict
from functools import partial

import urllib3

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.live import Live
from services.reference_decoding import listening_event
from streamstate.state.redis import RedisStore, connect
from tests.integration import erased, expected_answers
from tests.integration.driving import Driving
from tests.serving import sample
from tests.unit.recommendations.following import edges
from tests.waiting import until

WINDOW = 1_000_000
LISTS = ("artistRecommendations", "albumRecommendations", "trackRecommendations")


def assert_recount_agrees(driving: Driving) -> None:
    """Every profile equals a recount of the topic."""
    known = {kind: expected_answers.names(driving.read(kind)) for kind in KINDS}
    expected = expected_answers.profiles(driving.read(LISTENING_EVENTS), known)
    assert expected
    for user, profile in expected.items():
        answer = driving.get(f"/v1/users/{user}").json()
        assert answer.pop("warnings") == []
        assert all(isinstance(answer.pop(name), list) for name in (*LISTS, "fallbacks"))
        assert answer == profile


def assert_graph_agrees(driving: Driving) -> None:
    """A graph that is loaded now has exactly the topic's plays, and the instances' graphs have as many."""
    expected: dict[str, dict[int, list[int]]] = {kind: defaultdict(list) for kind in KINDS}
    events = map(listening_event, driving.read(LISTENING_EVENTS))
    plays = [event for event in events if event is not None and event["userId"] != erased.USER]
    for play in plays:
        for kind in KINDS:
            expected[kind][play["userId"]].append(play[f"{kind.removesuffix('s')}Id"])
    live = Live(RedisStore(connect(driving.cluster.redis.url, 10), "recommendations"), WINDOW)
    while live.step():
        pass
    assert edges(live.graph()) == expected
    for address in driving.cluster.addresses["recommendations"]:
        until(partial(_has, address, len(plays)), 30, "the instance's graph to be complete")


def _has(address: str, count: int) -> bool:
    text = urllib3.request("GET", f"http://{address}/metrics", timeout=10, retries=False).data.decode()
    return sample(text, "recommendations_graph_edges", kind="tracks") == count
