"""Errors as answers: problem+json (RFC 9457), one translation for all, each with a next step."""

from collections.abc import Iterable
from typing import Any

import msgspec
import structlog
from confluent_kafka import KafkaException
from redis.exceptions import RedisError
from werkzeug.exceptions import HTTPException

from streamstate.errors import BadKey, IncompleteCommit, Misconfigured, StreamStateError

log = structlog.get_logger()

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
MOST_KEYS = 200
"""The most keys of one GET."""

MOST_KEYS_POSTED = 1_000
"""The most keys of one POST."""


class Problem(StreamStateError):
    """An answer that is an error. `kind` is the stable last part of its type URI, `detail` says what to do next.

    headers: further ones of the answer.
    """

    def __init__(self, status: int, kind: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.members = members
        self.headers: dict[str, str] = {}


def not_ready(detail: str, **members: Any) -> Problem:
    return Problem(503, "not-ready", f"{detail}; ask again in {RETRY_AFTER_S} s", **members)


def bad_query(views: Iterable[str]) -> Problem:
    detail = (
        f"name 1 to {MOST_KEYS} keys as repeated parameters, each called by its view: {', '.join(views)}; or POST up "
        f"to {MOST_KEYS_POSTED} as JSON, a list of keys for each view"
    )
    return Problem(400, "bad-query", detail)


def deadline_passed() -> Problem:
    return Problem(
        504, "deadline", "no answer came within the deadline; ask again, or allow more time by X-Deadline-Ms"
    )


_ADVICE = {
    400: "correct the request",
    404: "see /openapi.json for the paths that there are",
    405: "use one of the methods that the Allow header names",
}


def problem_of(error: Exception, route: str) -> Problem:
    """What a client is told of `error`, which ended a request for `route`."""
    match error:
        case Problem():
            return error
        case BadKey():
            return Problem(400, "bad-key", str(error))
        case Misconfigured() | IncompleteCommit():
            return not_ready(str(error))
        case TimeoutError():
            return deadline_passed()
        case RedisError() | KafkaException():
            log.warning("a server cannot be reached", reason=str(error))
            return not_ready(f"the state cannot be read now ({type(error).__name__})")
        case HTTPException():
            status = error.code or 500
            detail = _ADVICE.get(status, error.description or error.name)
            return Problem(status, error.name.lower().replace(" ", "-"), detail)
        case _:
            log.error("a request failed", exc_info=error, route=route)
            return Problem(500, "internal", "this is our fault; tell us the X-Request-Id of this answer")


def encoded(problem: Problem, **members: Any) -> bytes:
    """The body that tells of `problem`; `members` are further ones."""
    body = {
        "type": f"urn:streamstate:problem:{problem.kind}",
        "title": problem.kind.replace("-", " ").capitalize(),
        "status": problem.status,
        "detail": problem.detail,
        **members,
        **problem.members,
    }
    return msgspec.json.encode(body)
