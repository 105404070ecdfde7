"""Requests and answers of coroutine views."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from streamstate.view import encoded
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import MOST_KEYS, Problem

JSON = "application/json"

_PLAIN = "!$&'()*+,;=:@"
"""The unescaped characters of a path segment (RFC 3986, section 3.3), besides letters, digits and `-._~`."""

MOST_BYTES = 8 * 1024 * 1024
"""The longest answer."""

MOST_BODY_BYTES = 128 * 1024
"""The longest body of a request."""

MOST_PARAMETERS = MOST_KEYS + 56
"""The most parameters of a query: keys and other parameters."""

POSITION = "Position"
"""The next offsets of the answering state: `topic:partition=offset`, separated by commas."""

BEGIN = "State-Begin"
"""The first offsets of a state that lacks earlier records, in the form of `POSITION`. Absent for a complete state."""

AGE = "State-Age-Ms"
"""Milliseconds since the state last had all records of its topics; absent for an unknown age."""

STATE_BYTES = "State-Bytes"
"""The bytes of state read for an answer, told by an instance to the gateway, which charges them to the caller."""

PRICED_BYTES = 16 * 1024
"""Bytes of state at the price of a read, as they are decoded and most are folded once more. Less is not told."""

SERVED_BY = "Served-By"
"""The answering instance; `standby` for a substitute of an unreachable owner."""


class Request:
    """One GET or POST: its `path` as of `path_of`, the parameters `query` in order, and its `deadline`.

    `body` is the body of a POST, None for a GET. `scope` is the server's, with the ids of the request as headers
    (`ids`); a handler of many routes sets the route of a request in `scope["route"]`. `caller` is the name of the
    caller, empty where access is off.
    """

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        path: str,
        accepted: float,
        longest_ms: int,
        body: bytes | None = None,
        caller: str = "",
    ) -> None:
        """`accepted` is the start of the deadline (seconds, monotonic clock).

        Raises a 400 `Problem` for an invalid deadline.
        """
        self.scope = scope
        self.path = path
        self._query: bytes = scope["query_string"]
        self.body = body
        self.caller = caller
        self.headers = headers_of(scope)
        self.deadline = Deadline.given(self.headers, accepted, longest_ms, scope["ids"])

    @cached_property
    def query(self) -> Sequence[tuple[str, str]]:
        """Raises a 400 `Problem` for more than `MOST_PARAMETERS`."""
        if self._query.count(b"&") >= MOST_PARAMETERS:
            raise too_many_parameters()
        return parse_qsl(self._query.decode(errors="replace"), keep_blank_values=True, errors="replace")


def too_many_parameters() -> Problem:
    return Problem(400, "bad-query", f"give at most {MOST_PARAMETERS} parameters; POST has room for more keys")


async def read_body(receive: Callable[[], Awaitable[Mapping[str, Any]]], within_s: float) -> bytes:
    """The whole body of a request.

    Raises a 413 `Problem` for more than `MOST_BODY_BYTES`, a 408 `Problem` after `within_s` seconds.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            more = True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MOST_BODY_BYTES:
                    raise body_too_large()
    except TimeoutError:
        raise slow_body(within_s) from None
    return bytes(body)


class Response(NamedTuple):
    """A whole answer; `headers` do not hold the length of the body."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def served_by(self) -> str:
        return self.headers.get(SERVED_BY, "")


def path_of(scope: Mapping[str, Any]) -> str:
    """The path of a request, with uniform percent-encoding of its segments: an encoded slash separates nothing.

    Empty for a path with a segment that is no UTF-8.
    """
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    if b"%" not in raw:
        return raw.decode("ascii")
    try:
        return "/".join(quote(unquote(part, errors="strict"), safe=_PLAIN) for part in raw.decode("ascii").split("/"))
    except UnicodeDecodeError:
        return ""


def bad_path() -> Problem:
    return Problem(400, "bad-path", "the path is no UTF-8; encode it as UTF-8, and that in percent")


def headers_of(scope: Mapping[str, Any]) -> Mapping[str, str]:
    """The headers by name in lower case; repeated headers are joined by commas (RFC 9110, section 5.2)."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def json(answer: Any, served_by: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON; `headers` about the state are added. Raises a 400 `Problem` when it is too long."""
    body = encoded(answer)
    if len(body) > MOST_BYTES:
        raise answer_too_large(len(body))
    return Response(200, body, {"Content-Type": JSON, SERVED_BY: served_by, **(headers or {})})


def body_too_large() -> Problem:
    detail = f"the body has more than {MOST_BODY_BYTES} bytes; ask for fewer keys at a time"
    return Problem(413, "body-too-large", detail)


def slow_body(within_s: float) -> Problem:
    return Problem(408, "slow-body", f"send the whole body within {within_s} s")


def answer_too_large(size: int) -> Problem:
    detail = f"the answer has {size} bytes; ask for less to get {MOST_BYTES} at most"
    return Problem(400, "answer-too-large", detail)
