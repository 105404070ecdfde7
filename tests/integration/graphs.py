"""The recommender's graph, held against the topic edge by edge."""

from collections import defaultdict
from functools import partial

import urllib3

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.live import Live
from services.reference_decoding import listening_event
from streamstate.state.redis import RedisStore, connect
from tests.integration import erased
from tests.integration.driving import Driving
from tests.serving import sample
from tests.unit.recommendations.following import edges
from tests.waiting import until

WINDOW = 1_000_000


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
    return edge_count(address) == count


def edge_count(address: str) -> float | None:
    text = urllib3.request("GET", f"http://{address}/metrics", timeout=10, retries=False).data.decode()
    return sample(text, "recommendations_graph_edges", kind="tracks")
