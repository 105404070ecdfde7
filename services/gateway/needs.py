"""What a request needs of its caller: scopes, a part of its limits, and whose data it is about."""

import math
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from services.gateway.documents import USERS
from services.gateway.owners import Owners
from services.gateway.users import PARTS, part_names
from streamstate.view import READ, Cost, Scope
from streamstate.web.http.request import Request
from streamstate.web.partition_map import ViewEntry
from streamstate.web.views import asked_for_many

USER_PATH = "/v1/users/<key>"
"""The paths of what is about one user begin so."""

DEMAND_COST = 5
"""Of a request that may wait for a fresher state, in reads of a key."""

COSTS = {"/openapi.json": 20, "/v1/users": 200, "/v1/users/<key>/export": 50}
"""Of the document of all services, of a search, which reads many keys, and of an export, which may be long."""

MOST_TIMES = 100
"""What parameters can multiply a cost by: more than their limits allow, which the service knows, is refused there."""

ANSWER_BYTES = 64 * 1024
"""So many bytes of an answer cost as much as a read of a key."""


BODY_BYTES = 16 * 1024
"""So many bytes of the body of a request cost as much as a read of a key."""


class Needs(NamedTuple):
    """cost: in reads of a key. user: the id of the only user that it is about, None when there is not just one.

    route: what the log calls it. own: whether a caller who may ask for one user only may ask this about that one.
    """

    scopes: Set[Scope]
    cost: int
    user: str | None
    route: str
    own: bool = False


def needs(request: Request, rule: str, arguments: Mapping[str, str], scope: Scope, owners: Owners) -> Needs:
    """What `request` needs, which is for the gateway's `rule` with this `scope`.

    Raises a `Problem` for a path that no service answers, or a malformed request for many keys.
    """
    demands = DEMAND_COST if request.deadline.demands else 0
    match rule:
        case "/v1/<path:rest>":
            _, view, text = owners.find(request.path)
            cost = cost_of(view.cost, request.query) + demands
            return Needs({view.scope}, cost, text if view.path.startswith(USER_PATH) else None, view.path)
        case "/v1/users/<key>/export":
            return Needs({scope}, COSTS[rule], arguments.get("key"), rule, own=True)
        case "/v1/many":
            return _many(request, owners, demands)
        case _ if rule.startswith(USER_PATH):
            cost = _user_cost(owners, part_names(request.query)) + demands
            return Needs({scope}, cost, arguments.get("key"), rule)
    return Needs({scope}, COSTS.get(rule, 1), None, rule)


def cost_of(cost: Cost, query: Iterable[tuple[str, str]]) -> int:
    """What a request with these parameters costs; those that are no numbers are refused later."""
    given = {name: text for name, text in query if name in cost.covers}
    factors = (max(1.0, _number(text) / cost.covers[name]) for name, text in given.items())
    return math.ceil(cost.base * min(MOST_TIMES, math.prod(factors)))


def _number(text: str) -> float:
    # More digits than any limit of a parameter has.
    return float(text[:12]) if text.isascii() and text.isdigit() else 0.0


def _many(request: Request, owners: Owners, demands: int) -> Needs:
    asked = asked_for_many(request, [*owners.keyed, USERS], besides=PARTS)
    users = {text for name, text in asked if name == USERS}
    views = {name for name, _ in asked} - {USERS, PARTS}
    known = [owners.keyed[name].views[name] for name in views if name in owners.keyed]
    about_users = all(_about_user(view) for view in known) and len(known) == len(views)
    ids = {text for name, text in asked if name != PARTS}
    keys = sum(name not in (USERS, PARTS) for name, _ in asked)
    cost = keys + len(users) * _user_cost(owners, part_names(asked)) + demands
    user = next(iter(ids)) if about_users and len(ids) == 1 else None
    return Needs({READ, *(view.scope for view in known)}, cost, user, "/v1/many")


def _about_user(view: ViewEntry) -> bool:
    return view.path.startswith(USER_PATH)


def _user_cost(owners: Owners, names: Set[str]) -> int:
    """Of the parts of one user: those called `names`, or those that are there by default."""
    return sum(
        view.cost.base for _, view, part in owners.parts.values() if (view.name in names if names else part.by_default)
    )
