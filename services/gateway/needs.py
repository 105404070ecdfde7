"""Reads and their needs: the view and its owner; scopes, the price in reads of a key, and the user of the answer."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial

from services.gateway.documents import USERS
from services.gateway.routing.directory import Directory, LocatedPart, ServiceMap
from services.gateway.routing.owners import Owners
from services.gateway.users import PARTS, Users, part_names, requested
from streamstate.view import ADMIN, READ, Cost, Scope
from streamstate.web.http.request import Request, Response, json
from streamstate.web.partition_map import ViewEntry
from streamstate.web.server.openapi import MANY
from streamstate.web.server.route import Call, Needs
from streamstate.web.views import asked_for_many

USER_PATH = "/v1/users/<key>"
"""The beginning of the paths about one user."""

DEMAND_COST = 5
"""Price of a request that may wait for a fresher state."""

DOCUMENT = Needs({READ}, 20)
SYSTEM = Needs({ADMIN}, 10)
"""All instances are asked."""
SEARCH_COST, EXPORT_COST = 200, 50
"""A search reads many keys; an export may be long."""

MOST_TIMES = 100
"""Limit of a price's factors: the service refuses parameters beyond its own limits."""

ANSWER_BYTES = 64 * 1024
"""Bytes of an answer at the price of a read."""

BODY_BYTES = 16 * 1024
"""Bytes of a request's body at the price of a read."""

PARAMETERS = 20
"""Parameters of a query at the price of a read."""


def of_view(known: ServiceMap, view: ViewEntry, text: str, request: Request) -> Needs:
    """The needs of a request for the key `text` of a view of the service `known`."""
    user = text if view.path.startswith(USER_PATH) else None
    partitions = max(known.processors.topics.values(), default=1)
    return Needs({view.scope}, cost_of(view.cost, request.query, partitions) + _demands(request), user)


def of_parts(parts: Iterable[LocatedPart], key: str, request: Request) -> Needs:
    """The needs of a request for these parts of the user `key`."""
    return Needs({READ}, sum(located.view.cost.base for located in parts) + _demands(request), key)


def of_user(owners: Owners, scope: Scope, request: Request, arguments: Mapping[str, str]) -> Needs:
    """The needs of a request about a user, at the price of the named parts, or of the default parts."""
    cost = _parts_cost(owners.now, part_names(request.query))
    return Needs({scope}, cost + _demands(request), arguments["key"])


def of_export(_request: Request, arguments: Mapping[str, str]) -> Needs:
    """The needs of an export; a JWT of the user is enough."""
    return Needs({ADMIN}, EXPORT_COST, arguments["key"], own=True)


def of_many(directory: Directory, asked: Sequence[tuple[str, str]], request: Request) -> Needs:
    """The needs of a request for many keys: `asked` are (view name, key text)."""
    users = {text for name, text in asked if name == USERS}
    views = {name for name, _ in asked} - {USERS, PARTS}
    known = [directory.keyed[name].views[name] for name in views if name in directory.keyed]
    about_users = all(view.path.startswith(USER_PATH) for view in known) and len(known) == len(views)
    ids = {text for name, text in asked if name != PARTS}
    keys = sum(name not in (USERS, PARTS) for name, _ in asked)
    cost = keys + len(users) * _parts_cost(directory, part_names(asked)) + _demands(request)
    user = next(iter(ids)) if about_users and len(ids) == 1 else None
    return Needs({READ, *(view.scope for view in known)}, cost, user)


def cost_of(cost: Cost, query: Sequence[tuple[str, str]], partitions: int) -> int:
    """The price of a request with the parameters `query`; the service refuses a text in place of a number."""
    given = {name: text for name, text in query if name in cost.covers}
    factors = (max(1.0, _number(text) / cost.covers[name]) for name, text in given.items())
    price = math.ceil(cost.base * min(MOST_TIMES, math.prod(factors)))
    if comparisons := cost.comparisons:
        price += comparisons.of([text for name, text in query if name == comparisons.parameter], partitions)
    return price


def _number(text: str) -> float:
    # No limit of a parameter has more digits.
    return float(text[:12]) if text.isascii() and text.isdigit() else 0.0


def _demands(request: Request) -> int:
    return DEMAND_COST if request.deadline.demands else 0


def _parts_cost(directory: Directory, names: Set[str]) -> int:
    """The price of a user's parts called `names`, or of the default parts."""
    return sum(
        view.cost.base
        for _, view, part in directory.parts.values()
        if (view.name in names if names else part.by_default)
    )


NAME = "gateway"


class ReadRoutes:
    """Resolves requests for views, users and many keys, each by the live releases at its start."""

    def __init__(self, owners: Owners, users: Users) -> None:
        self._owners = owners
        self._users = users

    def view(self, request: Request, _arguments: Mapping[str, str]) -> Call:
        """Any view. Raises a 404 `Problem` for an unknown path."""
        directory = self._owners.directory(request.headers)
        known, view, text = directory.find(request.path)
        answer = partial(self._users.view, directory, known, view, text, request)
        return Call(answer, view.path, of_view(known, view, text, request))

    def user(self, request: Request, arguments: Mapping[str, str]) -> Call:
        """The parts of a user. Raises a 400 `Problem` for unknown parts, and for parameters of no part."""
        key, directory = arguments["key"], self._owners.directory(request.headers)
        parts = requested(directory, request.query)
        answer = partial(self._users.user, directory, parts, request, key)
        return Call(answer, USER_PATH, of_parts(parts, key, request))

    def many(self, request: Request, _arguments: Mapping[str, str]) -> Call:
        """Many keys of any views, and users. Raises a 400 `Problem` for a malformed request."""
        directory = self._owners.directory(request.headers)
        asked = asked_for_many(request, [*directory.keyed, USERS], besides=PARTS)

        async def answer() -> Response:
            return json(await self._users.many(directory, asked, request.deadline), NAME)

        return Call(answer, MANY, of_many(directory, asked, request))
