"""What the server answers by itself, without the application: problems too."""

from http import HTTPStatus

from gunicorn.http.errors import ExpectationFailed, LimitRequestHeaders, LimitRequestLine, ParseException

from streamstate.web import heads
from streamstate.web.problems import CONTENT_TYPE, RETRY_AFTER_S, Problem, encoded

REQUEST_LINE_BYTES = 8190
FIELDS = 100
FIELD_BYTES = 8190

_HEADERS_TOO_LARGE = Problem(
    431,
    "headers-too-large",
    f"send at most {FIELDS} header fields of {FIELD_BYTES} bytes each, {heads.MOST_BYTES} bytes in all",
)
_ADDRESS_TOO_LONG = Problem(
    414, "address-too-long", f"shorten the request line to {REQUEST_LINE_BYTES} bytes; ask for fewer keys at a time"
)
_EXPECTATION = Problem(417, "expectation-failed", "leave the Expect header out")
INTERNAL = Problem(500, "internal", "this is our fault; tell us when it was")
# Also for a transfer coding that is unknown, for which RFC 9112 suggests 501: a 5xx would be counted as our failure.
_MALFORMED = Problem(400, "malformed-request", "this is no HTTP/1.1 request by RFC 9112; correct it")
OVERLOADED = Problem(
    503, "overloaded", f"this instance has all the requests that it can answer in time; ask again in {RETRY_AFTER_S} s"
)


def too_large(received: bytes) -> Problem:
    """What a request is told of which `received` is more than a head may be, and not all of it."""
    return _HEADERS_TOO_LARGE if b"\r\n" in received else _ADDRESS_TOO_LONG


def problem_of(error: BaseException) -> Problem:
    """What a request is told whose parsing ended with `error`."""
    match error:
        case LimitRequestLine():
            return _ADDRESS_TOO_LONG
        case LimitRequestHeaders():
            return _HEADERS_TOO_LARGE
        case ExpectationFailed():
            return _EXPECTATION
        case ParseException():
            return _MALFORMED
        case _:
            return INTERNAL


def answer(problem: Problem, *, closing: bool = True) -> bytes:
    """The whole HTTP answer that tells of `problem`; `closing` announces the end of the connection."""
    body = encoded(problem)
    lines = [
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        f"Content-Type: {CONTENT_TYPE}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        *([f"Retry-After: {RETRY_AFTER_S}"] if problem.status == 503 else []),
        *(["Connection: close"] if closing else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


GO_ON_LATER = answer(OVERLOADED, closing=False)
"""What turns a request away and keeps its connection."""
