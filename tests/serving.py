"""Applications under test, each on a port of 127.0.0.1, in a thread of this process."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import urllib3
import uvloop
from prometheus_client.parser import text_string_to_metric_families
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.test import Client

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate.web.access.internal import InternalTokens
from streamstate.web.client.instances import Instances
from streamstate.web.http.deadline import Deadline
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.flask_view import scope_of
from tests.waiting import PATIENCE_S, REQUEST_S, now_s, transports_closed

T = TypeVar("T")

Wsgi = Callable[[Any, Any], Iterable[bytes]]


class Loop:
    """An event loop, of the kind that serves, in a thread of its own, on which all applications of a test run."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._closing: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.tokens: InternalTokens | None = None
        """What the client of `instances` sends."""

    def run(self, awaitable: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(PATIENCE_S)

    def wsgi(self, app: Asgi) -> Wsgi:
        """`app` for servers and clients that speak WSGI."""
        self._closing.append(app.close)

        def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
            status, headers, body = self.run(_asked(app, environ))
            start_response(f"{status} {HTTPStatus(status).phrase}", headers)
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

        return answer

    def instances(self) -> Instances:
        """A client of instances."""
        client = Instances(self.tokens)
        self._closing.append(client.close)
        return client

    def stop(self) -> None:
        """Close the applications, and cancel what still runs."""
        for close in self._closing:
            self.run(close())
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await transports_closed()


async def _asked(app: Asgi, environ: Any) -> tuple[int, list[tuple[str, str]], bytes]:
    sent: list[Any] = []
    stays = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if b"data: " in message.get("body", b""):
            # A client that leaves a stream after its first event.
            stays.set()

    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))

    bodies = iter([body])

    async def receive() -> Any:
        if (body := next(bodies, None)) is None:
            await stays.wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    await app(scope_of(environ), receive, send)
    headers = [(name.decode(), text.decode("latin-1")) for name, text in sent[0]["headers"]]
    return sent[0]["status"], headers, b"".join(message["body"] for message in sent[1:])


class _Handler(WSGIRequestHandler):
    # A connection per request: a stopped server must not answer on a kept connection.
    protocol_version = "HTTP/1.0"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, named by werkzeug
        pass


class _Server(ThreadedWSGIServer):
    # Closing the server waits for running requests.
    daemon_threads = False


class Served:
    """`app` at `address` until `stop`; `seen` and `headers` are path, query and headers of each request."""

    def __init__(self, address: str, app: Wsgi) -> None:
        self.address = address
        self.seen: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.app = app
        host, _, port = address.partition(":")
        self._server = _Server(host, int(port), self._answer, _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        self.headers.append(
            {name[5:].replace("_", "-").title(): text for name, text in environ.items() if name.startswith("HTTP_")}
        )
        self.seen.append(environ["PATH_INFO"] + (f"?{query}" if query else ""))
        return self.app(environ, start_response)

    def stop(self) -> None:
        """End it; from here on, connections to `address` are refused."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


Serve = Callable[[str, Asgi], Served]
"""Serves an application at an address."""


@contextmanager
def looping() -> Iterator[Loop]:
    running = Loop()
    yield running
    running.stop()


@contextmanager
def serving(loop: Loop) -> Iterator[Serve]:
    """Serves applications until the block ends."""
    with ExitStack() as stack:

        def start(address: str, app: Asgi) -> Served:
            served = Served(address, loop.wsgi(app))
            stack.callback(served.stop)
            return served

        yield start


@contextmanager
def running(
    service: str,
    address: str,
    home: Path,
    settings: Mapping[str, str],
    probe: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """The process of an API, called by its address. It answers at `probe`, or is ready, when the block begins."""
    child = LocalCluster.api(service, address, address, home, settings, environment)
    child.start()
    try:
        child.wait_until(lambda: answers(probe or f"http://{address}/readyz"), timeout=PATIENCE_S)
        yield child
    finally:
        # A graceful end waits for the kept connections of this process.
        child.kill()


def new_address() -> str:
    return f"{LOCALHOST}:{free_port()}"


def sample(text: str, name: str, **labels: str) -> float | None:
    """The sample `name` in Prometheus text, None where there is none with these labels."""
    for family in text_string_to_metric_families(text):
        for line in family.samples:
            if line.name == name and labels.items() <= line.labels.items():
                return float(line.value)
    return None


def scrape(client: Client) -> str:
    return client.get("/metrics").get_data(as_text=True)


def scraped(address: str) -> str:
    """What a server at `address` tells Prometheus."""
    headers = {"Connection": "close"}  # the next one may reach another worker
    return urllib3.request("GET", f"http://{address}/metrics", timeout=REQUEST_S, headers=headers).data.decode()


def forwarded(address: str) -> float | None:
    """How many requests the instance at `address` passed on."""
    return sample(scraped(address), "streamstate_forwarded_requests_total")


def soon(seconds: float = REQUEST_S) -> Deadline:
    return Deadline(now_s() + seconds)
