"""The gateway's reads, resolved once: the view, its owner and the price of a request."""

from collections.abc import Mapping
from functools import partial

from services.gateway import documents, needs
from services.gateway.owners import Owners
from services.gateway.users import PARTS, Users
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.openapi import MANY
from streamstate.web.server.route import Call
from streamstate.web.views import asked_for_many

NAME = "gateway"


class ReadRoutes:
    """Resolves requests for views, users and many keys."""

    def __init__(self, owners: Owners, users: Users) -> None:
        self._owners = owners
        self._users = users

    def view(self, request: Request, _arguments: Mapping[str, str]) -> Call:
        """Any view. Raises a 404 `Problem` for an unknown path."""
        known, view, text = self._owners.find(request.path)
        answer = partial(self._users.view, known, view, text, request)
        return Call(answer, view.path, needs.of_view(view, text, request))

    def user(self, request: Request, arguments: Mapping[str, str]) -> Call:
        """The parts of a user. Raises a 400 `Problem` for unknown parts, and for parameters of no part."""
        key, parts = arguments["key"], self._users.requested(request.query)
        answer = partial(self._users.user, parts, request, key)
        return Call(answer, needs.USER_PATH, needs.of_parts(parts, key, request))

    def many(self, request: Request, _arguments: Mapping[str, str]) -> Call:
        """Many keys of any views, and users. Raises a 400 `Problem` for a malformed request."""
        asked = asked_for_many(request, [*self._owners.keyed, documents.USERS], besides=PARTS)

        async def answer() -> Response:
            return json(await self._users.many(asked, request.deadline), NAME)

        return Call(answer, MANY, needs.of_many(self._owners, asked, request))
