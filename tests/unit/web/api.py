"""The API of the tests' app as a process of its own: `python -m streamstate.web tests.unit.web`."""

from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.state.store import Commit, OffsetAdvance, Origin
from streamstate.testing import FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.server.asgi import Asgi
from strictasgi import server, waiting
from tests.unit.web.conftest import APP, COUNTS

SPOILT = 987_654_321


def create() -> Asgi:
    """An instance that owns every partition; number 7 came once, and of `SPOILT` the state cannot be understood."""
    # Slow clients are cut off early, so that no test waits for long; in this process alone.
    waiting.PATIENCE_S, server.TICK_S = 1.0, 0.1
    settings, store, topics = load(ApiSettings), MemoryStore(), FixedTopics(COUNTS)
    origins = {topic: Origin(topic, count) for topic, count in COUNTS.items()}
    for partition in range(4):
        claim = store.claim(partition, settings.advertise, {}, origins)
        operations = [Merge("tally:7", add={"count": 1}), Merge(f"tally:{SPOILT}", add={"else": 1})]
        store.commit(Commit(claim, [OffsetAdvance("numbers", None, 1)], operations))
    return build(APP, settings, MemoryReader(store), Freshness(topics, APP.topics))
