"""The ASGI application over a Flask application, which declares and documents every route.

A handler is awaited on the event loop, with a `Request` before the parameters of its path. Flask's own views answer by
the same application.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import nullcontext
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from werkzeug.exceptions import MethodNotAllowed

from streamstate.deployment import logs, tracing
from streamstate.deployment.connections import HttpSettings
from streamstate.web.http.events import EventStream
from streamstate.web.http.parameters import require_known
from streamstate.web.http.problems import CONTENT_TYPE, Problem, encoded, overloaded, problem_of
from streamstate.web.http.request import Request, Response, bad_path, path_of, read_body
from streamstate.web.server import guard, probes
from streamstate.web.server.flask_view import FlaskView
from streamstate.web.server.openapi import Routes
from streamstate.web.server.route import Call, Endpoint
from streamstate.web.server.telemetry import Telemetry
from strictasgi.connection import EXTENSION
from strictasgi.overdue import Overdue

Hook = Callable[[], Awaitable[None]]
Serve = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

_WITHOUT_LENGTH = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
"""A 304's length would be the length of the omitted body (RFC 9110, section 8.6)."""

UNKNOWN = "unknown"
"""The label of a request without a route."""

BODY_SHARE = 0.5
"""The share of the longest deadline within which the body of a request must arrive; the rest is for the answer."""

RECHECK_S = 2.0
"""Maximum seconds for which a streaming answer outlives its caller's right to it."""


class Asgi:
    """Answers for `flask`, whose routes are complete before the first request.

    starting, ending: awaited in this order when the server starts, on its loop, and when it ends.
    guarding: the access control; an instance's guard when it is None.
    """

    def __init__(
        self,
        flask: Routes,
        settings: HttpSettings,
        telemetry: Telemetry,
        starting: Iterable[Hook] = (),
        ending: Iterable[Hook] = (),
        guarding: guard.Guard | None = None,
    ) -> None:
        self.flask = flask
        self._settings = settings
        self.telemetry = telemetry
        self._starting = starting
        self._ending = ending
        self._cors = flask.cors
        self._guard = flask.guard = guarding or guard.of_instance(settings, telemetry)
        self._rules = flask.url_map.bind("")
        routes = [route for route in flask.table.values() if "GET" in route.methods]
        # Flask's order: literal segments before parameters, segment by segment.
        routes.sort(key=lambda route: [part.startswith("<") for part in route.path.split("/")])
        self._fixed = {route.path: route for route in routes if "<" not in route.path}
        self._patterns = [(route.pattern, route) for route in routes if "<" in route.path]
        self._open_paths = flask.open_paths
        flask.respond = FlaskView(self)
        self._in_flight = 0
        self._overdue = Overdue()
        spans = tracing.spans(flask.title)
        self._serve: Serve = self._http if spans is None else spans.served(self._http)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Start background work."""
        for hook in self._starting:
            await hook()

    async def close(self) -> None:
        """Release the application's resources."""
        for hook in self._ending:
            await hook()

    async def _http(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        own = scope.get("extensions", {}).get(EXTENSION, {})
        started = own.get("accepted") or time.monotonic()
        scope["ids"] = ids = self.telemetry.ids(scope["headers"])
        logs.REQUEST.set(ids)
        route, caller, response = await self._respond(scope, receive, started)
        scope["route"] = route
        seconds = time.monotonic() - started
        self.telemetry.answered(route, response.status, seconds, logged=self._settings.access_log)
        headers = {"Cache-Control": "no-store", **response.headers, logs.REQUEST_ID: ids[logs.REQUEST_ID]}
        headers |= self._cors.headers(scope)
        if isinstance(response, Response) and response.status not in _WITHOUT_LENGTH:
            headers["Content-Length"] = str(len(response.body))
        raw = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": raw})
        if isinstance(response, Response):
            await send({"type": "http.response.body", "body": response.body})
        else:
            await self._stream(response, caller, scope, receive, send)

    async def _respond(
        self, scope: MutableMapping[str, Any], receive: Any, started: float
    ) -> tuple[str, Any, Response | EventStream]:
        """The label of the route, the caller, and the answer, also to a request that fails."""
        route, path, caller = UNKNOWN, "", None
        try:
            if self._cors.asked_before(scope):
                # A preflight has no credential, and its sender learns nothing of paths.
                return route, None, Response(HTTPStatus.NO_CONTENT, b"", {})
            path = path_of(scope)
            if not self._is_open(path, scope):
                caller = await self._guard.identify(scope["headers"])
            receipt = None if caller is None else await self._guard.charge(caller, scope["headers"])
            if not path:
                raise bad_path()
            # The body is read before the request counts as in flight: slow clients keep no others out.
            timeout_s = BODY_SHARE * self._settings.deadline_ms / 1000
            body = await read_body(receive, timeout_s) if scope["method"] == "POST" else None
            if caller is not None:
                self._guard.received(caller, scope["query_string"], body or b"")
            self._require_place(path)
            matched, arguments = self._match(path, scope["method"])
            route = matched.path
            name = "" if caller is None else caller.name
            request = Request(scope, path, started, self._settings.deadline_ms, body, name)
            call = matched.resolver.resolve(request, arguments)
            route = call.route
            self._in_flight += 1
            try:
                return route, caller, await self._answer(matched, call, request, caller, receipt)
            finally:
                self._in_flight -= 1
        except Exception as error:  # noqa: BLE001, every error ends as a problem
            failure = _failure(error, route, path)
            return route, caller, failure if caller is None else self._guard.answered(caller, failure)

    async def _answer(
        self, route: Endpoint, call: Call, request: Request, caller: Any, receipt: Any
    ) -> Response | EventStream:
        method = request.scope["method"]
        limits = {} if caller is None else await self._guard.admit(caller, call, receipt, method)
        if route.parameters is not None and request.scope["query_string"] and request.path not in probes.PATHS:
            require_known(request.query, route.parameters)
        if method == "OPTIONS":
            return Response(200, b"", {"Allow": ", ".join(sorted(self._rules.allowed_methods(request.path))), **limits})
        waits = caller is not None and request.deadline.demands
        try:
            with self._guard.waiting(caller) if waits else nullcontext():
                answer = await self._overdue.limit(call.answer(), request.deadline.at)
        finally:
            if caller is not None and (state_bytes := request.deadline.spent.state_bytes):
                self._guard.spent(caller, state_bytes)
        if caller is None:
            return answer
        if isinstance(answer, EventStream):
            stream = self._guard.streaming(caller, answer)
            return replace(stream, headers={**stream.headers, **limits})
        answer = self._guard.answered(caller, answer)
        return answer._replace(headers={**answer.headers, **limits})

    def _require_place(self, path: str) -> None:
        """Raise a 503 `Problem` while too many requests are in flight, apart from probes."""
        if self._in_flight >= self._settings.requests_in_flight and path not in probes.PATHS:
            problem = overloaded()
            self.telemetry.refused(problem.kind)
            raise problem

    async def _stream(
        self, stream: EventStream, caller: Any, scope: Mapping[str, Any], receive: Any, send: Any
    ) -> None:
        """Send chunks until the client leaves or loses its right, or the server ends.

        Each chunk is made after the previous chunk is sent.
        """

        async def send_chunks() -> None:
            try:
                async for chunk in stream.chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except Exception as error:  # noqa: BLE001, the status is sent already: it is logged, and the stream ends
                problem_of(error, scope["route"])

        if own := scope.get("extensions", {}).get(EXTENSION):
            own["send_unqueued"]()
        sending = asyncio.create_task(send_chunks())
        ending = {sending, asyncio.create_task(_left(receive))}
        if caller is not None:
            ending.add(asyncio.create_task(self._lapse(caller, scope["headers"])))
        self.telemetry.open_streams.inc()
        try:
            if scope["method"] != "HEAD":
                await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.telemetry.open_streams.dec()
            for task in ending:
                task.cancel()
            stream.close()
        await send({"type": "http.response.body", "body": b""})

    async def _lapse(self, caller: Any, headers: guard.Headers) -> None:
        """Returns when these headers no longer name `caller` with all its rights."""
        while True:
            await asyncio.sleep(RECHECK_S)
            try:
                if await self._guard.identify(headers) != caller:
                    return
            except Problem as problem:
                # Other problems leave the caller unknown for the moment.
                if problem.status == HTTPStatus.UNAUTHORIZED:
                    return

    def _is_open(self, path: str, scope: Mapping[str, Any]) -> bool:
        """Whether a request needs no credential: for the process itself, and at the probe port also for its metrics."""
        if path == probes.METRICS_PATH:
            return bool(self._settings.probe_port) and scope["server"][1] == self._settings.probe_port
        return path in self._open_paths

    def _match(self, path: str, method: str) -> tuple[Endpoint, Mapping[str, str]]:
        """The route of a request. Reads are matched here: werkzeug's matching takes a tenth of a read's CPU time."""
        if method == "GET":
            if route := self._fixed.get(path):
                return route, {}
            for pattern, route in self._patterns:
                if match := pattern.fullmatch(path):
                    return route, _decoded(match.groupdict())
        endpoint, arguments = self._rules.match(path, method)
        return self.flask.table[endpoint], _decoded(arguments)


async def _left(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _decoded(arguments: Mapping[str, str]) -> Mapping[str, str]:
    return {name: unquote(text) for name, text in arguments.items()}


def _failure(error: Exception, route: str, path: str) -> Response:
    """The answer to a request for `path` that raised `error`."""
    problem = problem_of(error, route)
    headers = {"Content-Type": CONTENT_TYPE, **problem.headers}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return Response(problem.status, encoded(problem, instance=path), headers)
