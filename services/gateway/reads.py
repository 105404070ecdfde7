"""The gateway's reads, resolved once: the view, its owner and the price of a request."""

from collections.abc import Mapping
from functools import partial

from services.gateway import documents, needs
from services.gateway.owners import Owners
from services.gateway.users import PARTS, Users, requested
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.openapi import MANY
from streamstate.web.server.route import Call
from streamstate.web.views import asked_for_many

NAME = "gateway"


class ReadRoutes:
    """Resolves requests for views, users and many keys, each by the live releases at its start."""

    def __init__(self, owners: Owners, users: Users) -> None:
        self._owners = owners
        self._users = users

    def view(self, request: Request, _arguments: Mapping[str, str]) -> Call:
        """Any view. Raises a 404 `Problem` for an unknown path."""
        at = self._owners.at(request.headers)
        known, view, text = at.find(request.path)
        answer = partial(self._users.view, at, known, view, text, request)
        return Call(answer, view.path, needs.of_release(needs.of_view(view, text, request), request))

    def user(self, request: Request, arguments: Mapping[str, str]) -> Call:
        """The parts of a user. Raises a 400 `Problem` for unknown parts, and for parameters of no part."""
        key, at = arguments["key"], self._owners.at(request.headers)
        parts = requested(at, request.query)
        answer = partial(self._users.user, at, parts, request, key)
        return Call(answer, needs.USER_PATH, needs.of_release(needs.of_parts(parts, key, request), request))

    def many(self, request: Request, _arguments: Mapping[str, str]) -> Call:
        """Many keys of any views, and users. Raises a 400 `Problem` for a malformed request."""
        at = self._owners.at(request.headers)
        asked = asked_for_many(request, [*at.keyed, documents.USERS], besides=PARTS)

        async def answer() -> Response:
            return json(await self._users.many(at, asked, request.deadline), NAME)

        return Call(answer, MANY, needs.of_release(needs.of_many(at, asked, request), request))
