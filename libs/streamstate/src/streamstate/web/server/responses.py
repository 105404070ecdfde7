"""The outputs of routes in the OpenAPI document: statuses, headers, and an example of each kind of problem."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec
from werkzeug.exceptions import NotFound

from streamstate.deployment.logs import REQUEST_ID
from streamstate.errors import BadKey
from streamstate.keys import LONG
from streamstate.web.http import events
from streamstate.web.http.deadline import bad_deadline, bad_demand
from streamstate.web.http.demands import ENTRIES, ENTRIES_PATTERN, MIN_POSITION
from streamstate.web.http.events import ServerSentEvent
from streamstate.web.http.parameters import bad_parameter
from streamstate.web.http.problems import (
    ADDRESS_TOO_LONG,
    CONTENT_TYPE,
    HEADERS_TOO_LARGE,
    INTERNAL,
    MALFORMED,
    Problem,
    bad_body,
    bad_query,
    deadline_passed,
    encoded,
    not_ready,
    overloaded,
    problem_of,
    unknown_key,
)
from streamstate.web.http.request import (
    AGE,
    BEGIN,
    JSON,
    MOST_BYTES,
    POSITION,
    SERVED_BY,
    answer_too_large,
    bad_path,
    body_too_large,
    slow_body,
)

REF = "#/components/{kind}/{name}"

Document = dict[str, Any]

MEANINGS: Mapping[int, str] = {
    400: "The request is malformed; correct it",
    401: "No credential, or an unknown credential",
    403: "The caller lacks the right",
    404: "There is no such key or path",
    408: "The body came too slowly",
    413: "The body is too large",
    414: "The address is too long",
    421: "Another instance owns the key",
    429: "The caller's limit is used up",
    431: "The headers are too large",
    500: "A fault of the service",
    503: "Temporarily unavailable; retry",
    504: "The deadline passed",
}

ALWAYS = (400, 414, 431, 500, 503, 504)
"""Error statuses of any route."""

_OFFSETS = {"type": "string", "pattern": f"^{ENTRIES_PATTERN}$"}
HEADERS: Mapping[str, tuple[str, Document]] = {
    REQUEST_ID: ("identifies the request in the logs of all processes involved", {"type": "string"}),
    SERVED_BY: (
        "the answering instance; `standby` for a substitute of an unreachable owner",
        {"type": "string"},
    ),
    POSITION: (
        "the next offsets of the state that answered: topic:partition=offset, separated by commas, or topic:*=greatest",
        _OFFSETS,
    ),
    AGE: (
        "milliseconds since the state last had all records of its topics; absent for an unknown age",
        {"type": "integer", "minimum": 0},
    ),
    BEGIN: ("the first offsets of a state that lacks earlier records, in the form of Position", _OFFSETS),
    "Retry-After": ("seconds before a retry", {"type": "integer", "minimum": 1}),
    "WWW-Authenticate": ("the required credential (RFC 9110, section 11.6.1)", {"type": "string"}),
    "RateLimit-Policy": ("the caller's limits: q tokens in w seconds", {"type": "string"}),
    "RateLimit": ("the remaining r tokens, with more after t seconds", {"type": "string"}),
}
OF_ANSWERS = (REQUEST_ID, SERVED_BY)
_REQUIRED = ("Retry-After", "WWW-Authenticate")
OF_STATES = (POSITION, AGE, BEGIN)


class Answer(NamedTuple):
    """An answer of the type `kind`: an example of it, or of an event with such data, and its header names."""

    kind: Any
    example: Any
    headers: Sequence[str] = ()

    @classmethod
    def like(cls, example: Any) -> Self:
        return cls(type(example), example)

    @classmethod
    def of_state(cls, example: Any) -> Self:
        return cls(type(example), example, OF_STATES)

    @property
    def streams(self) -> bool:
        return isinstance(self.example, ServerSentEvent)


class ProblemDetails(msgspec.Struct):
    """RFC 9457; `detail` says what to do next."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""


def problems() -> list[Problem]:
    """An example of each kind of problem of any process."""
    return [
        problem_of(BadKey(f"an id is a whole number from 0 to {LONG.most}, in plain digits"), ""),
        bad_path(),
        bad_parameter("limit: expected a whole number <= 100; see /openapi.json for the limits"),
        bad_query(["metrics", "artists"]),
        bad_body("expected a list, found a whole number"),
        bad_deadline(),
        bad_demand(MIN_POSITION, ENTRIES),
        answer_too_large(MOST_BYTES + 1),
        MALFORMED,
        unknown_key("metrics"),
        problem_of(NotFound(), ""),
        slow_body(1.0),
        body_too_large(),
        ADDRESS_TOO_LONG,
        HEADERS_TOO_LARGE,
        INTERNAL,
        not_ready("partition 3 is being built, 40 %", partition=3, progress=40),
        overloaded(),
        deadline_passed(),
    ]


def of_problems(examples: Iterable[Problem], header_names: Sequence[str]) -> Mapping[str, Document]:
    """The responses for problems like `examples`, by status; `header_names` are of the headers of any problem."""
    statuses: defaultdict[int, list[Problem]] = defaultdict(list)
    for problem in examples:
        statuses[problem.status].append(problem)
    return {str(status): _problems(status, statuses[status], header_names) for status in sorted(statuses)}


def _problems(status: int, alike: Iterable[Problem], header_names: Sequence[str]) -> Document:
    bodies: dict[str, Document] = {}
    for problem in alike:
        bodies.setdefault(problem.kind, {"value": msgspec.json.decode(encoded(problem, instance="/v1/users/42"))})
    content = {CONTENT_TYPE: {"schema": ref("schemas", ProblemDetails.__name__), "examples": bodies}}
    names = [REQUEST_ID, *header_names, *(name for problem in alike for name in problem.headers)]
    return {"description": MEANINGS[status], "headers": header_refs(names), "content": content}


def headers(examples: Iterable[Problem]) -> Mapping[str, Document]:
    """The headers with their meanings, and with their values in `examples`."""
    texts = {name: text for problem in examples for name, text in problem.headers.items()}
    given = {name: {"example": int(text) if text.isdigit() else text} for name, text in texts.items()}
    return {
        name: {"description": text, "required": name in _REQUIRED, "schema": schema, **given.get(name, {})}
        for name, (text, schema) in HEADERS.items()
    }


def header_refs(names: Iterable[str]) -> Mapping[str, Document]:
    return {name: ref("headers", name) for name in names}


def found(schema: Document, answer: Answer) -> Document:
    """The response of such an answer."""
    headers = header_refs((*OF_ANSWERS, *answer.headers))
    if answer.streams:
        content_type, (name, place, data) = events.CONTENT_TYPE, answer.example
        line = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
        schema = {"type": "object", "properties": {"event": {"type": "string"}, "id": {"type": "string"}, "data": line}}
        shown = {"event": name, "id": place, "data": data.decode()}
    else:
        # Encoding omits UNSET members.
        content_type, shown = JSON, msgspec.json.decode(msgspec.json.encode(answer.example))
    return {"description": "Found", "headers": headers, "content": {content_type: {"schema": schema, "example": shown}}}


def schemas(kind: Any) -> tuple[Sequence[Document], Mapping[str, Document]]:
    """The schema of a type, and the named schemas in it."""
    of_kind, named = msgspec.json.schema_components([kind], ref_template=REF.format(kind="schemas", name="{name}"))
    for shape in named.values():
        # Defaults are encoded like other values: an answer lacks UNSET members only.
        shape["required"] = [
            name for name, schema in shape["properties"].items() if name in shape["required"] or "default" in schema
        ]
    return of_kind, named


def ref(kind: str, name: str) -> Document:
    return {"$ref": REF.format(kind=kind, name=name)}
