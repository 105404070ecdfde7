"""Who may ask: what `Asgi` calls before each request that is not for a probe."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from werkzeug.routing import Rule

from streamstate.access.internal import HEADER, InternalTokens
from streamstate.errors import Misconfigured
from streamstate.gateway import Scope
from streamstate.settings import HttpSettings
from streamstate.web.http.events import EventStream
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Request, Response
from streamstate.web.server.telemetry import Telemetry

Headers = Iterable[tuple[bytes, bytes]]
"""The fields of a request, names in lower case."""

_RAW_HEADER = HEADER.lower().encode()


class Guard:
    """Lets everybody ask everything: access is off.

    problems: one of each kind that it answers. schemes: how callers identify themselves, as OpenAPI has it.
    told: the names of the headers that it adds to answers.
    """

    problems: Sequence[Problem] = ()
    schemes: Mapping[str, Mapping[str, str]] = {}
    told: Sequence[str] = ()

    def security(self, scope: Scope) -> Sequence[Mapping[str, Sequence[str]]]:  # noqa: ARG002
        """What a request for what needs `scope` must have, as OpenAPI has it."""
        return ()

    async def identify(self, headers: Headers) -> Any:  # noqa: ARG002
        """The caller, None for one who may ask everything. Raises a 401 `Problem`; no body was read by then."""
        return None

    async def refuse(self, caller: Any) -> None:
        """Charge a request that no route answers. Raises a 429 `Problem`."""

    async def admit(self, caller: Any, rule: Rule, arguments: Mapping[str, Any], request: Request) -> Mapping[str, str]:  # noqa: ARG002
        """Further headers of the answer to a request that `rule` matched. Raises a 403 or 429 `Problem`."""
        return {}

    def streaming(self, caller: Any, stream: EventStream) -> EventStream:  # noqa: ARG002
        """`stream` as `caller` gets it. Closes it and raises a 429 `Problem` when the caller has too many."""
        return stream

    def answered(self, caller: Any, response: Response) -> Response:  # noqa: ARG002
        """What `caller` gets of `response`."""
        return response


class InternalGuard(Guard):
    """Lets the gateway and other instances ask: those who have the token."""

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
    """What instances ask for, None where access is off. Raises `Misconfigured` without a file that can be read."""
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
    """The problem that says by `challenge` (RFC 9110, section 11.6.1) what has to be sent."""
    problem = Problem(401, "unauthorized", detail)
    problem.headers["WWW-Authenticate"] = challenge
    return problem
