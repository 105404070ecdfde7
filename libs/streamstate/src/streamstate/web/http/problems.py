"""Errors as answers: problem+json (RFC 9457), one translation for all, each with a next step."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, TypeGuard

import msgspec
import structlog
from confluent_kafka import KafkaException
from redis.exceptions import RedisError
from werkzeug.exceptions import HTTPException

from streamstate.errors import BadKey, BadParameter, IncompleteCommit, Misconfigured, StreamStateError
from strictasgi import refusals

log = structlog.get_logger()

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
OPERATORS = "operators"
"""The member that marks a problem whose detail is for operators."""

MOST_KEYS = 200
"""The most keys of one GET."""

MOST_KEYS_POSTED = 1_000
"""The most keys of one POST."""


class Problem(StreamStateError):
    """An error answer. `kind` is the stable last part of its type URI, `detail` says what to do next.

    Make a new problem for each `raise`: an exception raised again keeps the frames of all earlier raises.

    headers: the answer's headers about the problem.
    """

    def __init__(self, status: int, kind: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.members = members
        self.headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}


def for_callers(problem: dict[str, Any]) -> dict[str, Any]:
    """The members of a problem without what only an operator may know: commands, addresses and paths."""
    if not problem.get(OPERATORS):
        return problem
    detail = f"the service cannot answer until its operators act; ask again in {RETRY_AFTER_S} s, or tell them"
    return {name: value for name, value in problem.items() if name != OPERATORS} | {"detail": detail}


def is_final(error: StreamStateError) -> TypeGuard[Problem]:
    """Whether the same request fails again, unlike in a failure of the server."""
    return isinstance(error, Problem) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR


def not_ready(detail: str, **members: Any) -> Problem:
    return Problem(503, "not-ready", f"{detail}; ask again in {RETRY_AFTER_S} s", **members)


def overloaded(wanted: str = "requests") -> Problem:
    detail = f"more {wanted} have come than can be answered in time; ask again in {RETRY_AFTER_S} s"
    return Problem(503, "overloaded", detail)


def bad_query(views: Iterable[str]) -> Problem:
    detail = (
        f"name 1 to {MOST_KEYS} keys as repeated parameters, each called by its view: {', '.join(views)}; or POST up "
        f"to {MOST_KEYS_POSTED} as JSON, a list of keys for each view"
    )
    return Problem(400, "bad-query", detail)


def bad_body(reason: str) -> Problem:
    detail = f"{reason}; send a JSON object with a list of keys for each view, up to {MOST_KEYS_POSTED} in all"
    return Problem(400, "bad-body", detail)


def unknown_key(view: str, warning: str = "", misplaced: str = "") -> Problem:
    """warning: why the state may lack the key, after which the same request may succeed.

    misplaced: why a right key may be unknown, and what the operator does about it.
    """
    reason = f": {warning}" if warning else ""
    step = misplaced or f"check the key, or ask again later{reason}"
    detail = f"nothing is known of this key in {view}; {step}"
    return Problem(404, "unknown-key", detail)


def not_the_owner(owner: str, partition: int) -> Problem:
    detail = f"ask {owner}, which owns the key's partition"
    return Problem(421, "not-the-owner", detail, partition=partition, owner=owner)


def deadline_passed() -> Problem:
    return Problem(
        504, "deadline", "no answer came within the deadline; ask again, or allow more time by X-Deadline-Ms"
    )


INTERNAL = Problem(500, "internal", "this is our fault; tell us the X-Request-Id of this answer")
MALFORMED = Problem(*refusals.MALFORMED)
ADDRESS_TOO_LONG = Problem(
    414, refusals.ADDRESS_TOO_LONG.kind, f"{refusals.ADDRESS_TOO_LONG.detail}; ask for fewer keys at a time"
)
HEADERS_TOO_LARGE = Problem(*refusals.HEADERS_TOO_LARGE)
UNANSWERED = Problem(*refusals.UNANSWERED)
REFUSED = {problem.kind: problem for problem in (MALFORMED, ADDRESS_TOO_LONG, HEADERS_TOO_LARGE, UNANSWERED)}
"""The problems of requests refused before the application, by kind."""

_ADVICE = {
    400: "correct the request",
    404: "see /openapi.json for the paths that there are",
    405: "use one of the methods that the Allow header names",
}


def problem_of(error: Exception, route: str) -> Problem:
    """The problem for `error`, raised by a request for `route`."""
    match error:
        case Problem():
            return error
        case BadKey():
            return Problem(400, "bad-key", str(error))
        case BadParameter():
            return Problem(400, "bad-parameter", str(error))
        case Misconfigured() | IncompleteCommit():
            return not_ready(str(error), **{OPERATORS: True})
        case TimeoutError():
            return deadline_passed()
        case RedisError() | KafkaException():
            log.warning("a server cannot be reached", reason=str(error))
            server = "Redis" if isinstance(error, RedisError) else "Kafka"
            return not_ready(f"{server} cannot be read now")
        case HTTPException():
            status = error.code or 500
            detail = _ADVICE.get(status, error.description or error.name)
            return Problem(status, error.name.lower().replace(" ", "-"), detail)
        case _:
            log.error("a request failed", exc_info=error, route=route)
            return INTERNAL


def encoded(problem: Problem, **members: Any) -> bytes:
    """The body for `problem`, with further `members`."""
    body = {
        "type": f"urn:streamstate:problem:{problem.kind}",
        "title": problem.kind.replace("-", " ").capitalize(),
        "status": problem.status,
        "detail": problem.detail,
        **members,
        **problem.members,
    }
    return msgspec.json.encode(body)
