"""Paths, headers and answers, shared by both clients."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from streamstate_client.errors import Refused, Unavailable, Unreachable

T = TypeVar("T")

CONNECT_S = 2.0
ANSWER_S = 10.0
"""The gateway's own deadline is shorter."""

SILENCE_S = 60.0
"""The longest silence of a stream; the gateway sends at least every 15 s by default."""

RETRY_S = 1.0
"""The pause before a new connection after the end of a stream."""

LAST_EVENT_ID = "Last-Event-ID"
POSITION = "Position"


class Reply(NamedTuple):
    """The JSON of an answer, and its header `Position`, empty without a state: `X-Min-Position` of later requests."""

    value: Any
    position: str


class Event(NamedTuple):
    """An event of a stream: the id, by which a client resumes the stream, and the data in JSON."""

    id: str
    data: str


def headers(key: str) -> Mapping[str, str]:
    """The headers of each request, with the API key or token `key` unless empty."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def about(user: int | str, what: str = "") -> str:
    """The path of a user, or a path below."""
    return f"/v1/users/{quote(str(user), safe='')}{what}"


def user_path(user: int | str, parts: Iterable[str], *, explain: bool, stream: bool = False) -> str:
    """The path of a profile, or of its stream, with its query."""
    names = ",".join(parts)
    query = [("parts", names)] * bool(names) + [("explain", "true")] * explain
    path = about(user, "/stream" if stream else "")
    return f"{path}?{urlencode(query, safe=',')}" if query else path


def decoded(url: str, status: int, body: bytes, kind: type[T]) -> T:
    """The answer as `kind`. Raises `Refused` or `Unavailable` for a problem, `Unreachable` for another answer."""
    try:
        if status in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            return msgspec.json.decode(body, type=kind)
        detail = str(msgspec.json.decode(body)["detail"])
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise unreachable(url) from error
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unavailable(detail)
    raise Refused(status, detail)


def unreachable(url: str) -> Unreachable:
    """The error for a server that does not answer like a gateway."""
    return Unreachable(f"no gateway answers at {url}; check the address, and that it runs")


class Parser:
    """Puts the lines of a stream together to events. Only the last event counts, so types and comments are skipped."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: bytes) -> Event | None:
        """The event, if this line completes an event."""
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name:
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        return Event(fields.get("id", ""), fields["data"]) if "data" in fields else None
