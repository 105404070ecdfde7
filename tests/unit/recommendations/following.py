"""Plays written to a store in the way of the stream, and the expected graph."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.graph.bipartite import Bipartite, Graph
from services.recommendations.model import app
from services.recommendations.settings import WindowSettings
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.state.store import Store
from streamstate.testing import Driver
from tests.raw import Play, play_json

PARTITIONS = 3
WINDOW = 1_000
Logs = dict[int, list[RawRecord]]
"""The records of each partition of the topic."""


def records(plays: Iterable[Play]) -> Logs:
    """The topic after `plays`, which came a second apart; every third offset is a gap."""
    logs: Logs = {partition: [] for partition in range(PARTITIONS)}
    for number, play in enumerate(plays):
        key = LONG.encode(play[0])
        log = logs[partition_of(key, PARTITIONS)]
        log.append((len(log) * 3 // 2, number * 1_000, key, play_json(play)))
    return logs


def driver(store: Store, window: int = WINDOW) -> Driver:
    return Driver(app(WindowSettings.model_construct(window=window)), store, PARTITIONS)


def fold(into: Driver, topic: Logs, cuts: Sequence[int] = ()) -> None:
    """Fold all of `topic`, each partition cut into batches at the indexes `cuts`."""
    for partition, log in topic.items():
        edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(log)}), len(log)]
        for start, end in pairwise(edges):
            into.feed(partition, {LISTENING_EVENTS: log[start:end]})


def by_user(view: Bipartite) -> dict[int, list[int]]:
    """The items of each user who has edges, oldest first."""
    names = view.user_names.external[: len(view.users)].tolist()
    known = {user: view.item_names.external[view.known(user)].tolist() for user in names}
    return {user: items for user, items in known.items() if items}


def edges(graph: Graph) -> dict[str, dict[int, list[int]]]:
    return {kind: by_user(graph.view(kind)) for kind in KINDS}


def expected(plays: Iterable[Play]) -> dict[str, dict[int, list[int]]]:
    """The same, from the plays themselves."""
    items_of: dict[str, dict[int, list[int]]] = {kind: defaultdict(list) for kind in KINDS}
    for user, *items, _time in plays:
        for kind, item in zip(KINDS, items, strict=True):
            items_of[kind][user].append(item)
    return items_of
