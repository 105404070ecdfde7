"""The commands of docs/security.md: each prints what the page says."""

from collections.abc import Iterator

import pytest

from devkit.child_process import LOCALHOST
from devkit.redis_server import Redis
from services.metrics.model import APP as METRICS
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.testing import Driver
from tests.integration.terminal import Example, Terminal, examples
from tests.raw import feed_plays

DATABASE = 10
EXAMPLES = examples("docs/security.md")


@pytest.fixture(scope="module")
def terminal(redis_server: Redis) -> Iterator[Terminal]:
    """A shell; the state of metrics exists, and its owner is away."""
    url = f"redis://{LOCALHOST}:{redis_server.port}/{DATABASE}"
    store = RedisStore(connect(url, 10), METRICS.name)
    feed_plays(Driver(METRICS, store), [(1, 1, 2, 3, 1_000)])
    store.claim(0, f"{LOCALHOST}:1", {})
    terminal = Terminal({}, {"STREAMSTATE_KAFKA": f"{LOCALHOST}:1", "STREAMSTATE_REDIS": url})
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.lines[-1]))
def test_each_command_prints_what_the_page_says(terminal: Terminal, example: Example) -> None:
    terminal.follow(example, 60)
