"""Spans by OpenTelemetry's SDK, exported as OTLP over HTTP. No attribute holds a key or a user id."""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from streamstate.deployment.address import Address
from streamstate.deployment.logs import TRACE_PARENT
from streamstate.state.operations import Read
from streamstate.state.store import AsyncReads, Snapshot

_W3C = TraceContextTextMapPropagator()
Attributes = Mapping[str, str | int]
_METHODS = {"GET", "HEAD", "OPTIONS", "POST"}


_NAME = TRACE_PARENT.encode()

ANSWERS = "/v1/"
"""The path prefix of requests with spans: probes and maps are requested all the time."""

Handle = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class HasStatus(Protocol):
    """The answer of another instance."""

    @property
    def status(self) -> int: ...


A = TypeVar("A", bound=HasStatus)
Ask = Callable[[str, str, Mapping[str, str], str], Awaitable[A]]
"""Asks an address for a path and query, with headers, by a method."""


class Spans:
    """Makes the spans of a process, called `name` unless OTEL_SERVICE_NAME has another name."""

    def __init__(self, name: str) -> None:
        own = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: name}
        provider = TracerProvider(resource=Resource.create(own))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = provider.get_tracer("streamstate")

    def served(self, handle: Handle) -> Handle:
        """`handle`, an HTTP handler that sets its route in `scope["route"]`, with a span of each request.

        The request gets the `traceparent` of its span, so that logs and calls of other instances join its trace.
        """

        async def answer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            if not scope["path"].startswith(ANSWERS):
                await handle(scope, receive, send)
                return
            fields = scope["headers"]
            with self._request(scope["method"], dict(fields).get(_NAME, b"").decode("latin-1")) as span:

                async def send_traced(message: MutableMapping[str, Any]) -> None:
                    await send(message)
                    if message["type"] == "http.response.start":
                        _answered(span, scope["route"], message["status"])

                others = [(name, text) for name, text in fields if name != _NAME]
                scope["headers"] = [*others, (_NAME, _parent(span).encode())]
                await handle(scope, receive, send_traced)

        return answer

    def called(self, ask: Ask[A]) -> Ask[A]:
        """`ask`, which calls another instance, with a span of each call made for a request.

        A call without a `traceparent` header is made in the background, and has no span.
        """

        async def traced(address: str, target: str, headers: Mapping[str, str], method: str) -> A:
            if TRACE_PARENT not in headers:
                return await ask(address, target, headers, method)
            with self._call(address, method, headers[TRACE_PARENT]) as span:
                answer = await ask(address, target, {**headers, TRACE_PARENT: _parent(span)}, method)
                span.set_attribute("http.response.status_code", answer.status)
                return answer

        return traced

    @contextmanager
    def _request(self, method: str, parent: str) -> Iterator[Span]:
        """The span of a request to this process, in the trace of the request's `traceparent`, if any.

        It ends with the answer, or with the body. Spans started in the body are its children.
        """
        attributes = {"http.request.method": method if method in _METHODS else "_OTHER"}
        context = _W3C.extract({TRACE_PARENT: parent}, Context())
        span = self._tracer.start_span("HTTP", context, SpanKind.SERVER, attributes)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        finally:
            if span.is_recording():
                span.end()

    @contextmanager
    def _call(self, address: str, method: str, parent: str) -> Iterator[Span]:
        """The span of a call to another instance at `address`, for the request with this `traceparent`."""
        host, port = Address.parse(address)
        attributes: Attributes = {"http.request.method": method, "server.address": host, "server.port": port}
        span = self._tracer.start_span(
            method, _W3C.extract({TRACE_PARENT: parent}, Context()), SpanKind.CLIENT, attributes
        )
        with _failing(span):
            yield span

    @contextmanager
    def read(self, partitions: int) -> Iterator[None]:
        """The span of a read of `partitions` partitions, for the present request."""
        # Background work after the request is no part of its trace.
        if not trace.get_current_span().is_recording():
            yield
            return
        attributes: Attributes = {
            "db.system.name": "redis",
            "db.operation.name": "MULTI",
            "streamstate.partitions": partitions,
        }
        with _failing(self._tracer.start_span("MULTI", None, SpanKind.CLIENT, attributes)):
            yield

    def reads(self, reads: AsyncReads) -> AsyncReads:
        """`reads` with a span of each."""
        return _TracedReads(reads, self)

    def batches(self, progresses: Iterable[Any], after: int) -> int:
        """Export spans of a query's micro-batches with records, behind the batch numbered `after`.

        Returns the number of the last batch.
        """
        for progress in progresses:
            if progress.numInputRows and progress.batchId > after:
                after = progress.batchId
                began = int(datetime.fromisoformat(progress.timestamp).timestamp() * 1e9)
                attributes = {
                    "messaging.system": "kafka",
                    "messaging.batch.message_count": progress.numInputRows,
                    "streamstate.batch": after,
                    **{f"spark.duration_ms.{phase}": ms for phase, ms in progress.durationMs.items()},
                }
                span = self._tracer.start_span(
                    "micro-batch", Context(), SpanKind.CONSUMER, attributes, start_time=began
                )
                span.end(began + progress.durationMs["triggerExecution"] * 1_000_000)
        return after


def _answered(span: Span, route: str, status: int) -> None:
    """End the span of a request for `route`."""
    if span.is_recording():
        span.update_name(f"HTTP {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _parent(span: Span) -> str:
    """The `traceparent` of the children of `span`."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier[TRACE_PARENT]


@contextmanager
def _failing(span: Span) -> Iterator[None]:
    """End `span` with the body. The span gets the class of an exception only: a message may hold a key."""
    try:
        yield
    except BaseException as error:
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR))
        raise
    finally:
        span.end()


class _TracedReads:
    def __init__(self, reads: AsyncReads, spans: Spans) -> None:
        self._reads = reads
        self._spans = spans

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        with self._spans.read(len(wanted)):
            return await self._reads.read(wanted)

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:
        return await self._reads.troubles(addresses)

    async def releases(self, of: str) -> bytes | None:
        return await self._reads.releases(of)

    async def close(self) -> None:
        await self._reads.close()
