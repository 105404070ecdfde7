"""The API of a trial, and where the project's services are, the gateway with its page before it."""

import asyncio
import json
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress

import uvloop

from streamstate.cli import output
from streamstate.cli.services import environment, imported
from streamstate.cli.trial.rows import PAUSE_S, Row
from streamstate.cli.trial.trial import Trial
from streamstate.deployment import logs
from streamstate.errors import Misconfigured
from streamstate.settings import ApiSettings, CommandSettings, load
from streamstate.testing import FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.server.asgi import Asgi
from strictasgi.server import Server


def listener(port: int) -> socket.socket:
    """A socket at `port`, any free one for 0. Raises `Misconfigured` for a port that is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        msg = f"the port {port} cannot be opened ({error.strerror}): name another one by --listen"
        raise Misconfigured(msg) from error


def serve(trial: Trial, inner: socket.socket, outer: socket.socket, rows: Iterable[Sequence[Row]]) -> None:
    """Fold `rows`, and answer until Ctrl-C: the API at `inner`, and the gateway, or else the API too, at `outer`."""
    owner, topics = "{}:{}".format(*inner.getsockname()), FixedTopics({trial.topic: 1})
    with environment({"ACCESS": "off", "ADVERTISE": owner, "INSTANCES": json.dumps({"profile": owner})}):
        freshness = Freshness(topics, trial.app.topics)
        api, gateway = build(trial.app, load(ApiSettings), MemoryReader(trial.store), freshness), None
        with suppress(Misconfigured):
            gateway = imported(f"{load(CommandSettings).package}.gateway.api").create()
    logs.configure("stderr")

    async def run() -> None:
        servers = [await _started(api, inner), *([await _started(gateway, outer)] if gateway else [])]
        if not gateway:
            servers[0].listen(outer)
        address = "http://{}:{}".format(*outer.getsockname())
        page = f"the page is {address}/#/profiles" if gateway else "the page is in the project's folder"
        output.say(f"{address}{trial.app.views[0].path.replace('<key>', 'KEY')} answers until Ctrl-C; {page}")
        for batch in rows:
            trial.feed(batch)
            topics.written[trial.topic, 0] = trial.next
            await asyncio.sleep(0 if batch else PAUSE_S)
        await asyncio.Event().wait()

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def _started(app: Asgi, sock: socket.socket) -> Server:
    server = Server(app)
    await server.start()
    server.listen(sock)
    return server
