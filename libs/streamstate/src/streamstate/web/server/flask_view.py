"""Flask's view, which answers by the ASGI application: for WSGI servers and Flask's test client."""

import asyncio
import queue
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Protocol
from urllib.parse import quote, unquote

import flask
from werkzeug.datastructures import EnvironHeaders


class Application(Protocol):
    """An ASGI application; `start` is awaited once, before the first request."""

    async def start(self) -> None: ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class FlaskView:
    """Answers Flask's current request by `application`, on an event loop in a thread of its own."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self) -> flask.Response:
        sent: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        left = asyncio.Event()
        loop = self._started()
        answering = asyncio.run_coroutine_threadsafe(self._answer(flask.request, left, sent), loop)
        head = _next(sent, answering)

        def body() -> Iterator[bytes]:
            more = True
            try:
                while more:
                    message = _next(sent, answering)
                    more = message.get("more_body", False)
                    yield message["body"]
            finally:
                loop.call_soon_threadsafe(left.set)

        headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in head["headers"]]
        response = flask.Response(body(), head["status"])
        response.headers.clear()
        response.headers.extend(headers)
        return response

    async def _answer(
        self, request: flask.Request, left: asyncio.Event, sent: "queue.SimpleQueue[Mapping[str, Any]]"
    ) -> None:
        bodies = iter([request.get_data()])

        async def receive() -> Mapping[str, Any]:
            if (body := next(bodies, None)) is None:
                await left.wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Mapping[str, Any]) -> None:
            sent.put(message)

        await self._application(scope_of(request.environ), receive, send)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="flask", daemon=True).start()
                asyncio.run_coroutine_threadsafe(self._application.start(), self._loop).result()
            return self._loop


def _next(sent: "queue.SimpleQueue[Mapping[str, Any]]", answering: "Future[None]") -> Mapping[str, Any]:
    """The next message. Raises the error of an application that ended early."""
    while True:
        try:
            return sent.get(timeout=1.0)
        except queue.Empty:
            if answering.done():
                answering.result()
                raise


def scope_of(environ: dict[str, Any]) -> dict[str, Any]:
    """The ASGI scope of a WSGI request, with the path as the client wrote it."""
    path: str = environ["PATH_INFO"]
    raw: str = environ["REQUEST_URI"].partition("?")[0]
    return {
        "type": "http",
        "method": environ["REQUEST_METHOD"],
        "path": path.encode("latin-1").decode("utf-8", "replace"),
        # Of several slashes at the beginning, werkzeug leaves one in the URI.
        "raw_path": raw.encode() if unquote(raw, "latin-1") == path else quote(path, encoding="latin-1").encode(),
        "query_string": environ["QUERY_STRING"].encode("latin-1"),
        "headers": [
            (name.lower().encode(), text.encode("latin-1", "replace")) for name, text in EnvironHeaders(environ).items()
        ],
        "server": (environ["SERVER_NAME"], int(environ["SERVER_PORT"])),
    }
