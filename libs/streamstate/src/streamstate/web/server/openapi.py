"""Routes with an OpenAPI document made from the types of parameters, and from an example of the answer."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import msgspec
from flask import Flask
from werkzeug.exceptions import HTTPException

from streamstate.keys import KeyCodec
from streamstate.view import ADMIN, READ, Scope
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import JSON, Request, Response
from streamstate.web.server import responses
from streamstate.web.server.cors import Cors
from streamstate.web.server.guard import Guard
from streamstate.web.server.parameters import DEMANDS, PLACE, Parameter, example_key, many_operations, places
from streamstate.web.server.responses import ALWAYS, OF_STATES, Answer, Document
from streamstate.web.server.route import Answering, Endpoint, Needs, Resolver, resolver

MANY, SPEC = "/v1/many", "/openapi.json"
FOUND, ACCEPTED = "200", "202"


class Routes(Flask):
    """The routes of a process, with their document at /openapi.json.

    problems: an example of each kind of its problems, apart from the problems of `guard`, the access control. The
        document has no other error statuses.
    """

    def __init__(self, service: str, problems: Iterable[Problem]) -> None:
        super().__init__(f"streamstate.{service}", static_folder=None)
        # An empty key is an error, not a redirect.
        self.url_map.merge_slashes = False
        self.title = service
        self.table: dict[str, Endpoint] = {}
        """The routes by endpoint."""
        self.open_paths: set[str] = set()
        """Paths answered without a credential."""
        self.guard = Guard()
        self.cors = Cors(())
        self.respond: Callable[..., Any] = _not_served
        """Flask's view of all routes; set by the application that serves them."""
        self._problems = problems
        self._paths: dict[str, dict[str, Document]] = {}
        self._schemas: dict[str, Document] = {}
        self.register_error_handler(HTTPException, lambda _error: self.respond())
        self.hidden(SPEC, "openapi", self._specification, READ)

    def hidden(
        self,
        path: str,
        name: str,
        handler: Answering,
        scope: Scope = ADMIN,
        methods: Sequence[str] = ("GET",),
        parameters: Collection[str] | None = None,
    ) -> None:
        """Add a route without an entry in the document."""
        needs = Needs({scope})
        resolving = handler if isinstance(handler, Resolver) else resolver(handler, path, lambda *_: needs)
        self.table[name] = Endpoint(
            path, name, resolving, scope, methods, None if resolving.checks_query else parameters
        )
        self.add_url_rule(path, name, lambda **_: self.respond(), methods=methods)

    async def _specification(self, _request: Request) -> Response:
        return Response(200, msgspec.json.encode(self.document()), {"Content-Type": JSON})

    def add(
        self,
        path: str,
        name: str,
        handler: Answering,
        summary: str,
        answer: Answer,
        key: KeyCodec[Any] | None = None,
        query: Sequence[Parameter] = (),
        scope: Scope = ADMIN,
        method: str = "get",
    ) -> None:
        """Add a route with answers like `answer`; `key` is the type of the key in its path.

        A request for an answer of a state may demand a fresh state. A DELETE is accepted, and executed later.
        """
        in_path = places(path, key)
        of_state = answer.headers == OF_STATES
        operation = {
            "operationId": name,
            "summary": summary,
            "parameters": [*in_path, *query, *(DEMANDS if of_state else ())],
        }
        further = [404] if in_path and not (key and answer.streams) else []
        known = self._documented(path, operation, answer, [*further, 421] if of_state else further, method)
        self.hidden(path, name, handler, scope, (method.upper(),), known)

    def many(self, handler: Answering, keys: Mapping[str, str], examples: Mapping[str, Any]) -> None:
        """Add the routes for many keys, given the name of the key's type and an example of an answer by view."""
        summary = "Many keys at once: answers by view and key, null for an unknown key"
        found = {view: {example_key(key): examples[view]} for view, key in keys.items()}
        answer = Answer(dict[str, dict[str, Any]], found, OF_STATES)
        for method, name, further in (("get", "many", (421,)), ("post", "post-many", (408, 413, 421))):
            operation = {"operationId": name, "summary": summary, "parameters": DEMANDS}
            self._documented(MANY, operation, answer, further, method)
            self.hidden(MANY, name, handler, READ, (method.upper(),))
        self._paths[MANY] = many_operations(self._paths[MANY], keys)

    def _documented(
        self, path: str, operation: Document, answer: Answer, further: Iterable[int] = (), method: str = "get"
    ) -> Collection[str]:
        """Describe an operation; `further` are statuses in addition to `ALWAYS`. Returns the names of its query."""
        (schema,), schemas = responses.schemas(answer.kind)
        found: Document = dict.fromkeys(map(str, sorted({*ALWAYS, *further})))
        item = self._paths.setdefault(PLACE.sub(r"{\1}", path), {})
        item[method] = {
            **operation,
            "responses": {ACCEPTED if method == "delete" else FOUND: responses.found(schema, answer), **found},
        }
        self._schemas |= schemas
        return [each["name"] for each in operation["parameters"] if each["in"] == "query"]

    def document(self) -> Document:
        """The OpenAPI document."""
        problems = [*self._problems, *self.guard.problems]
        paths = {
            path: {method: self.completed(path, operation) for method, operation in item.items()}
            for path, item in self._paths.items()
        }
        components = {
            "schemas": {**self._schemas, **responses.schemas(responses.ProblemDetails)[1]},
            "headers": responses.headers(problems),
            "responses": responses.of_problems(problems, self.guard.header_names),
            "securitySchemes": self.guard.schemes,
        }
        info = {"title": f"HTTP API of {self.title}", "version": "v1"}
        return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}

    def completed(self, path: str, operation: Document, scope: Scope | None = None) -> Document:
        """`operation` with the problems of this process, and the rights that callers need (`scope`).

        Its error responses keep their statuses; their problems are described anew.
        """
        is_open = path in self.open_paths
        guarding = () if is_open else self.guard.problems
        header_names = () if is_open else self.guard.header_names
        own = {str(problem.status) for problem in (*self._problems, *guarding)}
        statuses = {*operation["responses"], *(str(problem.status) for problem in guarding)} & own
        [good] = operation["responses"].keys() & {FOUND, ACCEPTED}
        answer = operation["responses"][good]
        answer = {**answer, "headers": {**answer["headers"], **responses.header_refs(header_names)}}
        security = [] if is_open else self.guard.security(scope or self.table[operation["operationId"]].scope)
        return {
            **operation,
            "responses": {good: answer, **{status: responses.ref("responses", status) for status in sorted(statuses)}},
            **({"security": security} if security else {}),
        }


def _not_served() -> NoReturn:
    msg = "these routes have no application yet"
    raise RuntimeError(msg)
