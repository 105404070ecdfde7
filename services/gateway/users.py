"""What is answered of a user: parts of several services, asked for at the same time, with names."""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from services.events import KINDS
from services.gateway import profile, recommended
from services.gateway.names import Names, Thing
from services.gateway.owners import Owners
from services.gateway.router import Router
from services.metrics.model import Profile
from services.recommendations.answers import ALL_KINDS, Recommendations, view
from streamstate.keys import LONG
from streamstate.web.client.instances import Answer, relay
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Request, Response, json

_decode_profile = msgspec.json.Decoder(Profile).decode
_decode_recommendations = msgspec.json.Decoder(Recommendations).decode
_decode_all_kinds = msgspec.json.Decoder(dict[str, Recommendations]).decode


class Users:
    """The routes of a user. A part that fails is named in `warnings`; without the plays there is no answer."""

    def __init__(self, owners: Owners, router: Router, names: Names) -> None:
        self._owners = owners
        self._router = router
        self._names = names

    async def metrics(self, request: Request, key: str) -> Response:
        """The plays in numbers."""
        answer = await self._ask("metrics", "metrics", key, request)
        if answer.status != 200:
            return relay(answer)
        found = _decode_profile(answer.body)
        names, warnings = await self._named(profile.things(found), request.deadline)
        return json(profile.metrics(found, names, warnings), answer.served_by, answer.told)

    async def recommendations(self, kind: str, request: Request, key: str) -> Response:
        """The items of one kind."""
        answer = await self._ask("recommendations", view(kind), key, request)
        if answer.status != 200:
            return relay(answer)
        found = _decode_recommendations(answer.body)
        names, warnings = await self._named(recommended.things(kind, found), request.deadline)
        return json(recommended.named(kind, found, names, warnings), answer.served_by, answer.told)

    async def profile(self, request: Request, key: str) -> Response:
        """All of it."""
        LONG.parse(key)
        walking = asyncio.create_task(self._recommended(key, request.deadline))
        try:
            answer = await self._ask("metrics", "metrics", key, request)
            if answer.status != 200:
                return relay(answer)
            plays = _decode_profile(answer.body)
            found, warnings = await walking
        finally:
            walking.cancel()
        things = [thing for kind, some in found.items() for thing in recommended.things(kind, some)]
        names, more = await self._named([*profile.things(plays), *things], request.deadline)
        return json(profile.merged(plays, found, names, warnings + more), answer.served_by, answer.told)

    async def _recommended(self, key: str, deadline: Deadline) -> tuple[Mapping[str, Recommendations], list[str]]:
        """What was recommended by kind, and what is to be said when it cannot be had."""
        try:
            answer = await self._router.anyone("recommendations", ALL_KINDS.replace("<key>", key), (), deadline)
            detail = "" if answer.status == 200 else answer.json()["detail"]
        except Problem as problem:
            detail = problem.detail
        if detail:
            return {}, [f"{profile.member(kind)}: {detail}" for kind in KINDS]
        return _decode_all_kinds(answer.body), []

    async def _ask(self, service: str, name: str, key: str, request: Request) -> Answer:
        known = await self._owners.service(service)
        return await self._router.one(service, known.views[name], key, request.query, request.deadline)

    async def _named(self, things: Iterable[Thing], deadline: Deadline) -> tuple[recommended.Names, list[str]]:
        """The names, and what is to be said when they cannot be had."""
        try:
            return await self._names.find(things, deadline), []
        except Problem as problem:
            return {}, [f"names: {problem.detail}"]
