"""Access control: `Asgi` calls the guard before each request other than a probe."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from streamstate.deployment.connections import HttpSettings
from streamstate.errors import Misconfigured
from streamstate.view import Scope
from streamstate.web.access.internal import HEADER, InternalTokens
from streamstate.web.http.events import EventStream
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Response
from streamstate.web.server.route import Call
from streamstate.web.server.telemetry import Telemetry

Headers = Iterable[tuple[bytes, bytes]]
"""The fields of a request, names in lower case."""

_RAW_HEADER = HEADER.lower().encode()


class Guard:
    """Admits every request: access is off.

    problems: an example of each kind of its problems. schemes: OpenAPI security schemes of callers.
    header_names: of the headers added to answers.
    """

    problems: Sequence[Problem] = ()
    schemes: Mapping[str, Mapping[str, str]] = {}
    header_names: Sequence[str] = ()

    def security(self, scope: Scope) -> Sequence[Mapping[str, Sequence[str]]]:  # noqa: ARG002
        """The OpenAPI security requirement of a request with `scope`."""
        return ()

    async def identify(self, headers: Headers) -> Any:  # noqa: ARG002
        """The caller, which has a `name`; None for a caller with all rights. Called before the body is read.

        Raises a 401 `Problem`.
        """
        return None

    async def charge(self, caller: Any, headers: Headers) -> Any:
        """Charge the least price, whatever the route, before any other work. Returns a receipt for `admit`.

        Raises a 429 `Problem`, and a 403 `Problem` for `headers` that the caller may not send.
        """

    def received(self, caller: Any, query: bytes, body: bytes) -> None:
        """Charge query and body of a request before they are decoded."""

    async def admit(self, caller: Any, call: Call, receipt: Any, method: str) -> Mapping[str, str]:  # noqa: ARG002
        """Further headers of the answer to `call`. Raises a 403 or 429 `Problem`."""
        return {}

    def streaming(self, caller: Any, stream: EventStream) -> EventStream:  # noqa: ARG002
        """`stream` as limited for `caller`. Closes it and raises a 429 `Problem` when the caller has too many."""
        return stream

    def waiting(self, caller: Any) -> AbstractContextManager[None]:  # noqa: ARG002
        """The place of a request that may wait for a fresher state. Raises a 429 `Problem` for too many of a caller."""
        return nullcontext()

    def spent(self, caller: Any, state_bytes: int) -> None:
        """Charge the bytes of state that were read for an answer, or until it failed."""

    def answered(self, caller: Any, response: Response) -> Response:  # noqa: ARG002
        return response


class InternalGuard(Guard):
    """Admits the gateway and other instances, by the token."""

    def __init__(self, tokens: InternalTokens) -> None:
        self._tokens = tokens
        self.problems = [_not_the_gateway()]
        self.schemes = {"instance": {"type": "apiKey", "in": "header", "name": HEADER}}

    def security(self, scope: Scope) -> Sequence[Mapping[str, Sequence[str]]]:  # noqa: ARG002
        return [{"instance": []}]

    async def identify(self, headers: Headers) -> None:
        given = next((text for name, text in headers if name == _RAW_HEADER), b"")
        if not self._tokens.accept(given):
            raise _not_the_gateway()


def internal_tokens(settings: HttpSettings, telemetry: Telemetry) -> InternalTokens | None:
    """The tokens accepted by instances, None where access is off. Raises `Misconfigured` without a readable file."""
    if settings.access == "off":
        return None
    if settings.internal_tokens is None:
        msg = "set STREAMSTATE_INTERNAL_TOKENS, or STREAMSTATE_ACCESS=off to answer everybody"
        raise Misconfigured(msg)
    return InternalTokens(settings.internal_tokens, telemetry.unreadable)


def of_instance(settings: HttpSettings, telemetry: Telemetry) -> Guard:
    """The guard of an API. Raises `Misconfigured` when its file cannot be read."""
    tokens = internal_tokens(settings, telemetry)
    return Guard() if tokens is None else InternalGuard(tokens)


def _not_the_gateway() -> Problem:
    return unauthorized("an instance answers the gateway only; ask the gateway", "Instance")


def unauthorized(detail: str, challenge: str) -> Problem:
    """The problem whose `challenge` (RFC 9110, section 11.6.1) names the required credential."""
    problem = Problem(401, "unauthorized", detail)
    problem.headers["WWW-Authenticate"] = challenge
    return problem
