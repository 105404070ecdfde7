"""Applications under test, each on a port of 127.0.0.1, in a thread of this process."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families
from werkzeug.serving import WSGIRequestHandler, make_server

from streamstate.errors import Misconfigured
from streamstate.kafka import Topics
from streamstate.web.client import Instances
from streamstate.web.deadline import Deadline

Wsgi = Callable[[Any, Any], Iterable[bytes]]


class FixedTopics(Topics):
    """Partition counts and ends (`written`) that the test decides."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.written: dict[tuple[str, int], int] = {}

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {place: self.written.get(place, 0) for place in places}

    def partitions(self, topic: str) -> int:
        if topic not in self.counts:
            msg = f"the topic {topic} cannot be read; create it"
            raise Misconfigured(msg)
        return self.counts[topic]


class _Handler(WSGIRequestHandler):
    # One connection a request: a server that was stopped must not answer on a connection that was kept.
    protocol_version = "HTTP/1.0"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, named by werkzeug
        pass


class Served:
    """`app` at `address` until `stop`; `seen` and `headers` are path, query and headers of each request."""

    def __init__(self, address: str, app: Wsgi) -> None:
        self.address = address
        self.seen: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.app = app
        host, _, port = address.partition(":")
        self._server = make_server(host, int(port), self._answer, threaded=True, request_handler=_Handler)
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


def sample(text: str, name: str, **labels: str) -> float | None:
    """The sample `name` in Prometheus text, None where there is none with these labels."""
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == name and labels.items() <= one.labels.items():
                return float(one.value)
    return None


def scrape(client: FlaskClient) -> str:
    return client.get("/metrics").get_data(as_text=True)


def forwarded(address: str) -> float | None:
    """How many requests the instance at `address` passed on."""
    answer = Instances(1).get(address, "/metrics", soon())
    return sample(answer.body.decode(), "streamstate_forwarded_requests_total")


def soon(seconds: float = 5.0) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until `condition` is true; fails when it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
