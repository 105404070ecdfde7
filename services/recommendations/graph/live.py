"""The graph of an API process, updated from the store by a thread."""

import time
from functools import cache

import numpy as np
import structlog
from redis.exceptions import RedisError

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.graph.bipartite import MOST_EVENTS, Graph
from services.recommendations.graph.tail import LogRewound, Rewritten, Tail
from services.recommendations.walks.salsa import recommend
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
    """The newest `window` plays of each partition. `step` is for a single thread, all other methods for any thread."""

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
        """The graph after loading the whole store; before, raises a 503 `Problem`."""
        ready = self._ready
        if ready is None:
            percent = int(self._tail.progress * 100)
            raise not_ready(f"the graph is being loaded, {percent} %", progress=percent)
        return ready

    @property
    def held(self) -> Graph:
        """The current graph, possibly incomplete."""
        return self._graph

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the next offset of the graph: all plays before are in the graph."""
        return self._positions

    def played(self, key: str) -> dict[str, list[int]]:
        """A user's items in the graph, by kind, oldest first. Raises like `graph`."""
        graph, user = self.graph(), LONG.parse(key)
        known = {kind: graph.view(kind) for kind in graph.kinds}
        return {kind: view.item_names.external[view.known(user)].tolist() for kind, view in known.items()}

    def step(self) -> bool:
        """Read new plays; returns whether more plays are likely. Raises the errors of the servers' clients."""
        if self._tail.partitions == 0 and not self._begin():
            return False
        try:
            plays = self._tail.poll()
        except Rewritten as error:
            # The old graph answers until the new graph is loaded.
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
            resources.return_free_memory()  # of the parsed texts, and of a former graph
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
        """Read available plays, at most a part of a long log."""
        warm_up()
        try:
            for _ in range(STEPS):
                if not self.step():
                    break
        except RedisError as error:
            log.warning("the graph is not kept up now; tried again shortly", reason=str(error))
            time.sleep(PAUSE_S)
        except Exception:
            # Plays may be missing from the graph: build the graph again.
            self._tail = Tail(self._store, 0, self.topic)
            time.sleep(PAUSE_S)
            raise


@cache
def warm_up() -> None:
    """Compile all kernels, or load cached code, before the first request."""
    graph = Graph(KINDS, 2_000)
    for first in (0, 1_000, 2_000):
        numbers = np.arange(first, first + 1_000, dtype=np.int64)
        graph.append(np.column_stack([numbers % 50, numbers, numbers % 7, numbers]))
    view = graph.view(KINDS[0])
    for explain in (False, True):
        recommend(view, 1, walks=10_000, early_stop=True, explain=explain)
    recommend(view, -1, allowed=view.items[:, 1] > 0)
    view.numbers([1])
