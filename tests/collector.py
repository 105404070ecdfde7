"""What takes traces: OTLP over HTTP, as OpenTelemetry's collector does."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from devkit.servers.child_process import LOCALHOST

SERVICE = "service.name"


class Exported(NamedTuple):
    """A span: the process that made it, its ids in hexadecimal digits (parent: empty for none), and its length."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: Mapping[str, Any]
    seconds: float


class Collector:
    """A collector with received `spans`; `environment` has the variables of a sending process."""

    def __init__(self, port: int) -> None:
        self.spans: list[Exported] = []
        self.environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOCALHOST}:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def add(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            (service,) = (each.value.string_value for each in resource.resource.attributes if each.key == SERVICE)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {each.key: _value(each.value) for each in span.attributes}
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
                    self.spans.append(Exported(service, span.name, *ids, values, took))

    def named(self, service: str, name: str) -> list[Exported]:
        """The spans of a process with this name."""
        return [span for span in self.spans if (span.service, span.name) == (service, name)]


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector, which listens in the body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.add(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            """A request is no news."""

    server = ThreadingHTTPServer((LOCALHOST, 0), Handler)
    collector = Collector(server.server_port)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
