"""A route, declared once: matching, access, document and the label in metrics follow from it."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from streamstate.view import ADMIN, Scope
from streamstate.web.http.events import EventStream
from streamstate.web.http.request import Request, Response

Answer = Callable[[], Awaitable[Response | EventStream]]
Handler = Callable[..., Awaitable[Response | EventStream]]
"""A coroutine function of the request and the path's parameters by name."""


class Needs(NamedTuple):
    """The rights that a request needs of its caller.

    cost: in reads of a key. user: the id of the only user of the answer, None without one. own: whether a caller with
    rights for this user only may send the request.
    """

    scopes: Set[Scope]
    cost: int = 1
    user: str | None = None
    own: bool = False


class Call(NamedTuple):
    """A resolved request: its answer, its label in metrics and logs, and the required rights."""

    answer: Answer
    route: str
    needs: Needs


class Resolver(NamedTuple):
    """resolve: the request and the path's parameters → the call. Raises a `Problem` for a malformed request.

    checks_query: whether it refuses unknown parameters itself.
    """

    resolve: Callable[[Request, Mapping[str, str]], Call]
    checks_query: bool = False


Answering = Handler | Resolver


@dataclass(frozen=True)
class Endpoint:
    """`path` has Flask's placeholders; `name` is the endpoint.

    parameters: the known names of the query; None where the resolved call checks them.
    """

    path: str
    name: str
    resolver: Resolver
    scope: Scope = ADMIN
    methods: Sequence[str] = ("GET",)
    parameters: Collection[str] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches the paths: `<name>` one segment, `<path:name>` the whole rest."""
        segment = re.sub("<([a-z]+)>", r"(?P<\1>[^/]+)", re.escape(self.path))
        return re.compile(re.sub("<path:([a-z]+)>", r"(?P<\1>[^/].*)", segment), re.DOTALL)


def resolver(handler: Handler, path: str, needs: Callable[[Request, Mapping[str, str]], Needs]) -> Resolver:
    """The resolver for `handler` alone; `needs` gets the request and the path's parameters."""
    return Resolver(lambda request, given: Call(partial(handler, request, **given), path, needs(request, given)))
