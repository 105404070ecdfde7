"""Definitions of metrics, and the port of a process without an API: `/livez`, `/readyz` and `/metrics`."""

import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from streamstate.deployment.address import Address

Application = Callable[..., Iterable[bytes]]
"""Of WSGI."""


class Definition(NamedTuple):
    """A metric: its name, its labels, and its meaning, with advice."""

    name: str
    labels: tuple[str, ...]
    meaning: str

    def gauge(self) -> GaugeMetricFamily:
        """Without samples yet."""
        return GaugeMetricFamily(self.name, self.meaning, labels=self.labels)

    def counter(self) -> CounterMetricFamily:
        """Without samples yet."""
        return CounterMetricFamily(self.name, self.meaning, labels=self.labels)


class Fault:
    """The answer of a probe that finds a fault: a status in words, and further members; `failing`: by status 503."""

    def __init__(self, status: str, *, failing: bool = True, **members: Any) -> None:
        self.document = {"status": status, **members}
        self.failing = failing


Probe = Callable[[], Fault | None]
"""None: all is well."""


def application(collector: Collector, live: Probe, ready: Probe) -> Application:
    """The WSGI application: `/livez` and `/readyz` by their probes, and `/metrics` of `collector`."""
    registry = CollectorRegistry()
    registry.register(collector)
    exposed = make_wsgi_app(registry)
    probes = {"/livez": live, "/readyz": ready}

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            exposition: Iterable[bytes] = exposed(environ, start_response)
            return exposition
        if path not in probes:
            start_response("404 Not Found", [])
            return []
        fault = probes[path]()
        failing = fault is not None and fault.failing
        start_response("503 Service Unavailable" if failing else "200 OK", [("Content-Type", "application/json")])
        return [json.dumps(fault.document if fault else {"status": "ok"}).encode()]

    return answer


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, named by the standard library
        """Log nothing: probes come every few seconds."""


def serve(application: Application, address: Address) -> None:
    """Answer at `address`, in the background, for the life of the process."""
    host, port = address.bound

    class Server(ThreadingWSGIServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = make_server(host, port, application, Server, _Quiet)
    threading.Thread(target=server.serve_forever, name="status", daemon=True).start()
