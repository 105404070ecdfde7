"""A worker class of gunicorn: `gunicorn --worker-class strictasgi.worker.Worker module:application`."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Any

import uvloop
from gunicorn.arbiter import Arbiter
from gunicorn.sock import ssl_context
from gunicorn.workers import base

from strictasgi.lifespan import LifespanFailed
from strictasgi.listener import Tls
from strictasgi.refusals import Refusal, plain
from strictasgi.server import Server
from strictasgi.waiting import IDLE_S

NOTIFY_S = 1.0


class Worker(base.Worker):  # type: ignore[misc]  # gunicorn has no annotations
    """Serves on an event loop of uvloop. A subclass may choose certificates (`tls`) and refusals (`refuse`).

    After SIGTERM, requests in progress have `graceful_timeout` seconds; SIGINT and SIGQUIT end at once.
    """

    def tls(self, _socket: Any) -> Tls:
        """The certificates of one of gunicorn's sockets."""
        return partial(ssl_context, self.cfg) if self.cfg.is_ssl else None

    def refuse(self, refusal: Refusal) -> tuple[bytes, bytes]:
        """The content type and the body of a refusal."""
        return plain(refusal)

    def run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        loop, stopping, serving = asyncio.get_running_loop(), asyncio.Event(), asyncio.current_task()
        assert serving is not None, "a coroutine runs in a task"
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
        for number in (signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, serving.cancel)
        idle_s = max(self.cfg.keepalive, IDLE_S)
        server = Server(self.wsgi, self.cfg.worker_connections, self.refuse, idle_s)
        try:
            await server.start()
        except LifespanFailed:
            self.log.exception("the application has not started")
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        for sock in self.sockets:
            server.listen(sock.sock, self.tls(sock))
        # `alive` is False after a SIGTERM before the start of the loop.
        while self.alive and not stopping.is_set() and os.getppid() == self.ppid:
            self.notify()
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), NOTIFY_S)
        await server.stop(self.cfg.graceful_timeout)
