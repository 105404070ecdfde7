"""Routes with an OpenAPI document made from the types of parameters, and from an example of the answer."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from apiflask import APIFlask

from streamstate.keys import KeyCodec
from streamstate.view import ADMIN, READ, Scope
from streamstate.web.http.events import EventStream, ServerSentEvent
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Response
from streamstate.web.server import responses
from streamstate.web.server.cors import Cors
from streamstate.web.server.guard import Guard
from streamstate.web.server.parameters import DEMANDS, PLACE, Parameter, example_key, many_operations, places
from streamstate.web.server.responses import ALWAYS, OF_STATES, Answer, Document

MANY = "/v1/many"
FOUND, ACCEPTED = "200", "202"

Handler = Callable[..., Awaitable[Response | EventStream]]
"""A coroutine function that gets the request and the path's parameters by name; awaited by `Asgi`."""


class Routes(APIFlask):
    """The routes of a process, with their document at /openapi.json.

    problems: an example of each kind of its problems, apart from the problems of `guard`, the access control. The
        document has no other error statuses.
    """

    def __init__(self, service: str, problems: Iterable[Problem]) -> None:
        super().__init__(f"streamstate.{service}", title=service, version="1", json_errors=False, docs_path=None)
        self.config["OPENAPI_VERSION"] = "3.1.0"
        # An empty key is an error, not a redirect.
        self.url_map.merge_slashes = False
        self.scopes: dict[str, Scope] = {"openapi.spec": READ}
        """The scope that a caller needs, by endpoint; `ADMIN` for an endpoint without an entry."""
        self.open_paths: set[str] = set()
        """Paths answered without a credential."""
        self.parameters: dict[str, Collection[str]] = {}
        """The names of the parameters of a query, by endpoint; whoever is not here looks at its parameters itself."""
        self.guard = Guard()
        self.cors = Cors(())
        self._problems = problems
        self._paths: dict[str, dict[str, Document]] = {}
        self._schemas: dict[str, Document] = {}
        self.spec_processor(lambda spec: {**cast("Any", spec), **self.document()})

    def hidden(
        self, path: str, name: str, handler: Handler, scope: Scope = ADMIN, methods: Sequence[str] = ("GET",)
    ) -> None:
        """Add a route without an entry in the document."""
        self.scopes[name] = scope
        self.add_url_rule(path, name, cast("Any", handler), methods=methods)

    def process(
        self, path: str, name: str, handler: Handler, summary: str, example: Any, key: KeyCodec[Any] | None = None
    ) -> None:
        """Add a route about the process itself, or other processes, without demands on a state."""
        in_path = places(path, key)
        operation = {"operationId": name, "summary": summary, "parameters": in_path}
        self._documented(path, operation, Answer(type(example), example), (404,) if in_path else ())
        self.hidden(path, name, handler)

    def deletion(self, path: str, name: str, handler: Handler, summary: str, example: Any, key: KeyCodec[Any]) -> None:
        """Add a route for DELETE, accepted with an answer like `example`, and executed later."""
        operation = {"operationId": name, "summary": summary, "parameters": places(path, key)}
        self._documented(path, operation, Answer(type(example), example), (404,), "delete")
        self.hidden(path, name, handler, methods=("DELETE",))

    def read(
        self,
        path: str,
        name: str,
        handler: Handler,
        summary: str,
        example: Any,
        key: KeyCodec[Any] | None = None,
        query: Sequence[Parameter] = (),
        scope: Scope = ADMIN,
    ) -> None:
        """Add a route with answers of the type of `example`; `key` is the type of the key in its path."""
        in_path = places(path, key)
        operation = {"operationId": name, "summary": summary, "parameters": [*in_path, *query, *DEMANDS]}
        further = (404, 421) if in_path else (421,)
        self._documented(path, operation, Answer(type(example), example, OF_STATES), further)
        self.hidden(path, name, handler, scope)

    def stream(
        self,
        path: str,
        name: str,
        handler: Handler,
        summary: str,
        example: ServerSentEvent,
        data: Any,
        key: KeyCodec[Any] | None = None,
        query: Sequence[Parameter] = (),
        scope: Scope = ADMIN,
    ) -> None:
        """Add a route with events like `example`, with data of the type `data`; otherwise as `read`."""
        operation = {"operationId": name, "summary": summary, "parameters": [*places(path, key), *query]}
        self._documented(path, operation, Answer(data, example))
        self.hidden(path, name, handler, scope)

    def many(self, handler: Handler, keys: Mapping[str, str], examples: Mapping[str, Any]) -> None:
        """Add the routes for many keys, given the name of the key's type and an example of an answer by view."""
        summary = "Many keys at once: answers by view and key, null for an unknown key"
        found = {view: {example_key(key): examples[view]} for view, key in keys.items()}
        answer = Answer(dict[str, dict[str, Any]], found, OF_STATES)
        for method, name, further in (("get", "many", (421,)), ("post", "post-many", (408, 413, 421))):
            operation = {"operationId": name, "summary": summary, "parameters": DEMANDS}
            self._documented(MANY, operation, answer, further, method)
            self.hidden(MANY, name, handler, READ, (method.upper(),))
            # Its parameters are named by view.
            del self.parameters[name]
        self._paths[MANY] = many_operations(self._paths[MANY], keys)

    def _documented(
        self, path: str, operation: Document, answer: Answer, further: Iterable[int] = (), method: str = "get"
    ) -> None:
        """Describe an operation; `further` are statuses in addition to `ALWAYS`."""
        (schema,), schemas = responses.schemas(answer.kind)
        found: Document = dict.fromkeys(map(str, sorted({*ALWAYS, *further})))
        self.parameters[operation["operationId"]] = [p["name"] for p in operation["parameters"] if p["in"] == "query"]
        item = self._paths.setdefault(PLACE.sub(r"{\1}", path), {})
        item[method] = {
            **operation,
            "responses": {ACCEPTED if method == "delete" else FOUND: responses.found(schema, answer), **found},
        }
        self._schemas |= schemas

    def document(self) -> Document:
        """The paths of the document, and its components."""
        problems = [*self._problems, *self.guard.problems]
        paths = {
            path: {method: self.completed(path, operation) for method, operation in item.items()}
            for path, item in self._paths.items()
        }
        components = {
            "schemas": {**self._schemas, **responses.schemas(responses.ProblemDetails)[1]},
            "headers": responses.headers(problems),
            "responses": responses.of_problems(problems, self.guard.told),
            "securitySchemes": self.guard.schemes,
        }
        return {"paths": paths, "components": components}

    def completed(self, path: str, operation: Document, scope: Scope | None = None) -> Document:
        """`operation` with the problems of this process, and the rights that callers need (`scope`).

        Its error responses keep their statuses; their problems are described anew.
        """
        is_open = path in self.open_paths
        guarding = () if is_open else self.guard.problems
        told = () if is_open else self.guard.told
        own = {str(problem.status) for problem in (*self._problems, *guarding)}
        statuses = {*operation["responses"], *(str(problem.status) for problem in guarding)} & own
        [good] = operation["responses"].keys() & {FOUND, ACCEPTED}
        answer = operation["responses"][good]
        answer = {**answer, "headers": {**answer["headers"], **responses.header_refs(told)}}
        security = [] if is_open else self.guard.security(scope or self.scopes[operation["operationId"]])
        return {
            **operation,
            "responses": {good: answer, **{status: responses.ref("responses", status) for status in sorted(statuses)}},
            **({"security": security} if security else {}),
        }
