"""The graph of an API process, kept up with the store by one thread."""

import time
from functools import cache

import numpy as np
import structlog
from redis.exceptions import RedisError

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.graph import MOST_EVENTS, Graph
from services.recommendations.salsa import recommend
from services.recommendations.tail import LogRewound, Rewritten, Tail
from streamstate.deployment import resources
from streamstate.deployment.background import keep_running
from streamstate.keys import LONG
from streamstate.state.store import Store
from streamstate.web.http.problems import not_ready

log = structlog.get_logger()

POLL_S = 0.1
PAUSE_S = 1.0
STEPS, LONGEST_S = 100, 600


class Live:
    """The newest `window` plays of each partition. `step` is for one thread, the rest for any."""

    def __init__(self, store: Store, window: int, topic: str = LISTENING_EVENTS) -> None:
        self.topic = topic
        self._store = store
        self._window = window
        self._graph = Graph(KINDS, 1)
        self._tail = Tail(store, 0, topic)
        self._positions: dict[int, int] = {}
        self._ready: Graph | None = None

    async def start(self) -> None:
        """Load the graph and follow the store, for as long as the process lives."""
        keep_running("the graph", self._follow, POLL_S, longest_s=LONGEST_S)

    def graph(self) -> Graph:
        """The graph with all that was stored; raises a 503 `Problem` until it is loaded."""
        ready = self._ready
        if ready is None:
            percent = int(self._tail.progress * 100)
            raise not_ready(f"the graph is being loaded, {percent} %", progress=percent)
        return ready

    @property
    def held(self) -> Graph:
        """The graph as it is, loaded or not."""
        return self._graph

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the offset up to which the graph has all plays."""
        return self._positions

    def played(self, key: str) -> dict[str, list[int]]:
        """What a user has played in the graph, by kind, oldest first. Raises as `graph` does."""
        graph, user = self.graph(), LONG.parse(key)
        known = {kind: graph.view(kind) for kind in graph.kinds}
        return {kind: view.item_names.external[view.known(user)].tolist() for kind, view in known.items()}

    def step(self) -> bool:
        """Take in what is new; tells whether there is likely more. Raises what the servers' clients raise."""
        if self._tail.partitions == 0 and not self._begin():
            return False
        try:
            plays = self._tail.poll()
        except Rewritten as error:
            # Until the new one is loaded, the old one answers.
            log.info("the graph is built again", reason=str(error))
            return self._begin(self._ready)
        except LogRewound as error:
            log.warning("the graph is built again", reason=str(error))
            return self._begin()
        if plays:
            self._graph.append(np.concatenate([entry.ids for entry in plays]))
        self._positions = self._tail.positions
        if self._ready is not self._graph and self._tail.caught_up:
            self._ready = self._graph
            resources.return_free_memory()  # of the texts that it was read from, and of a former graph
            log.info("the graph is loaded", plays=len(self._graph))
        return self._tail.more

    def _begin(self, ready: Graph | None = None) -> bool:
        """Begin from nothing, while `ready` answers; tells whether the state knows by now its number of partitions."""
        origin = self._store.read({0: []})[0].origins.get(self.topic)
        partitions = 0 if origin is None else origin.partitions
        self._ready = ready
        self._graph = Graph(KINDS, max(1, min(partitions * self._window, MOST_EVENTS)))
        self._tail = Tail(self._store, partitions, self.topic)
        self._positions = self._tail.positions
        return partitions > 0

    def _follow(self) -> None:
        """Take in what is there; of much, a part."""
        warm_up()
        try:
            for _ in range(STEPS):
                if not self.step():
                    break
        except RedisError as error:
            log.warning("the graph is not kept up now; tried again shortly", reason=str(error))
            time.sleep(PAUSE_S)
        except Exception:
            # What was read may be missing from the graph: it is built again.
            self._tail = Tail(self._store, 0, self.topic)
            time.sleep(PAUSE_S)
            raise


@cache
def warm_up() -> None:
    """Have all kernels compiled, or read from their cache, before the first request needs them."""
    graph = Graph(KINDS, 2_000)
    for first in (0, 1_000, 2_000):
        numbers = np.arange(first, first + 1_000, dtype=np.int64)
        graph.append(np.column_stack([numbers % 50, numbers, numbers % 7, numbers]))
    for explain in (False, True):
        recommend(graph.view(KINDS[0]), 1, walks=10_000, early_stop=True, explain=explain)
