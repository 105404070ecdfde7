"""The graph of an API process, kept up with the store by one thread."""

import threading
import time

import numpy as np
import structlog
from redis.exceptions import RedisError

from services.events import KINDS, LISTENING_EVENTS
from services.recommendations.graph import MOST_EVENTS, Graph
from services.recommendations.salsa import recommend
from services.recommendations.tail import Rewound, Tail
from streamstate.state.store import Store
from streamstate.web.http.problems import not_ready

log = structlog.get_logger()

POLL_S = 0.1
PAUSE_S = 1.0


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
        self._ended = False

    async def start(self) -> None:
        """Load the graph and follow the store, for as long as the process lives."""
        threading.Thread(target=self._run, name="live", daemon=True).start()

    def graph(self) -> Graph:
        """The graph with all that was stored; raises a 503 `Problem` until it is loaded."""
        ready = self._ready
        if ready is None:
            percent = int(self._tail.progress * 100)
            raise not_ready(f"the graph is being loaded, {percent} %", progress=percent)
        return ready

    def require_alive(self) -> None:
        """Raise a 503 `Problem` when the graph is not kept up any more, which only a restart mends."""
        if self._ended:
            detail = "the graph is not kept up any more, so this process must be started again"
            raise not_ready(detail)

    @property
    def held(self) -> Graph:
        """The graph as it is, loaded or not."""
        return self._graph

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the offset up to which the graph has all plays."""
        return self._positions

    def step(self) -> bool:
        """Take in what is new; tells whether there is likely more. Raises what the servers' clients raise."""
        if self._tail.partitions == 0 and not self._begin():
            return False
        try:
            plays = self._tail.poll()
        except Rewound as error:
            log.warning("the graph is built again", reason=str(error))
            return self._begin()
        if plays:
            self._graph.append(np.concatenate([entry.ids for entry in plays]))
        self._positions = self._tail.positions
        if self._ready is None and self._tail.caught_up:
            self._ready = self._graph
            log.info("the graph is loaded", plays=len(self._graph))
        return self._tail.more

    def _begin(self) -> bool:
        """Begin from nothing; tells whether the state knows by now how many partitions there are."""
        origin = self._store.read({0: []})[0].origins.get(self.topic)
        partitions = 0 if origin is None else origin.partitions
        self._ready = None
        self._graph = Graph(KINDS, max(1, min(partitions * self._window, MOST_EVENTS)))
        self._tail = Tail(self._store, partitions, self.topic)
        self._positions = self._tail.positions
        return partitions > 0

    def _run(self) -> None:
        try:
            warm_up()
            while True:
                time.sleep(self._pause())
        finally:
            self._ended = True

    def _pause(self) -> float:
        """One step; tells how many seconds the next one may wait."""
        try:
            return 0.0 if self.step() else POLL_S
        except RedisError as error:
            log.warning("the graph is not kept up now; tried again shortly", reason=str(error))
            return PAUSE_S


def warm_up() -> None:
    """Have all kernels compiled, or read from their cache, before the first request needs them."""
    graph = Graph(KINDS, 2_000)
    for first in (0, 1_000, 2_000):
        numbers = np.arange(first, first + 1_000, dtype=np.int64)
        graph.append(np.column_stack([numbers % 50, numbers, numbers % 7, numbers]))
    for explain in (False, True):
        recommend(graph.view(KINDS[0]), 1, walks=10_000, early_stop=True, explain=explain)
