"""Answers with names, and the parts of an answer about a user. What belongs together, the services declare."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from services.gateway.names import NameCache, Names, named
from services.gateway.owners import LocatedPart, Owners, unknown
from services.gateway.router import Router
from streamstate.errors import StreamStateError
from streamstate.keys import LONG
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.parameters import bad_parameter
from streamstate.web.http.request import Request, Response, json
from streamstate.web.partition_map import ViewEntry

PARTS, WARNINGS = "parts", "warnings"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Users:
    """Joins answers. What cannot be had is named in `warnings`."""

    def __init__(self, owners: Owners, router: Router, names: NameCache) -> None:
        self._owners = owners
        self._router = router
        self._names = names

    async def view(self, request: Request, rest: str) -> Response:
        """The answer of any view, as it is when no ids in it have names."""
        known, view, text = self._owners.find(f"/v1/{rest}")
        request.scope["route"] = view.path
        answer = await self._router.one(known, view, text, request.query, request.deadline)
        if answer.status != 200 or not view.names:
            return answer
        members = await self._joined([_decode(answer.body)], [], [view], request.deadline)
        if not (members[WARNINGS] or view.names.empty_warnings):
            del members[WARNINGS]
        return json(members, answer.served_by, answer.headers)

    async def user(self, request: Request, key: str) -> Response:
        """The parts that are asked for. The first one leads: the headers are its own, and any answer of it but 200."""
        LONG.parse(key)
        names = {name for parameter, text in request.query if parameter == PARTS for name in text.split(",")}
        if (parts := chosen(self._owners.parts, names)) is None:
            advice = f"{PARTS}: name some of {', '.join(self._owners.parts)}, separated by commas"
            raise self._owners.absent(bad_parameter(advice))
        (known, view, _), *others = parts
        asking = [asyncio.create_task(self._part(part, key, request.deadline)) for part in others]
        try:
            answer = await self._router.one(known, view, key, (), request.deadline)
            if answer.status != 200:
                return answer
            bodies = [_decode(answer.body), *await asyncio.gather(*asking)]
        finally:
            for task in asking:
                task.cancel()
        # The parts of a service that never answered are not known.
        warnings = [f"{service}: {unknown(service)}" for service in self._owners.missing() if not names]
        members = await self._joined(bodies, warnings, [view for _, view, _ in parts], request.deadline)
        return json(members, answer.served_by, answer.headers)

    async def _joined(
        self, bodies: Iterable[dict[str, Any]], warnings: list[str], views: Iterable[ViewEntry], deadline: Deadline
    ) -> dict[str, Any]:
        """The members of `bodies`, which are answers of `views`, with names, and `warnings` and theirs together."""
        members: dict[str, Any] = {}
        for body in bodies:
            warnings += body.pop(WARNINGS, ())
            members |= body
            members.setdefault(WARNINGS, warnings)
        places = [place for view in views if view.names for place in named(members, view.names.views)]
        names: Names = {}
        try:
            names = await self._names.get({thing for _, _, thing in places}, deadline)
        except StreamStateError as error:
            warnings.append(f"names: {error}")
        for holder, member, thing in places:
            holder[member] = names.get(thing)
        return members

    async def _part(self, located: LocatedPart, key: str, deadline: Deadline) -> dict[str, Any]:
        """The members of a part, which are empty when it fails, with warnings, or knows nothing of the key."""
        known, view, part = located
        reason = ""
        try:
            answer = await self._router.one(known, view, key, (), deadline)
            if answer.status == 200:
                return _decode(answer.body)
            if answer.status != 404:
                reason = _decode(answer.body)["detail"]
        except StreamStateError as error:
            reason = str(error)
        warnings = [f"{member}: {reason}" for member in part.members if reason]
        return {**{member: [] for member in (*part.members, *part.remarks)}, WARNINGS: warnings}


def chosen(parts: Mapping[str, LocatedPart], names: Set[str]) -> Sequence[LocatedPart] | None:
    """Those of `parts` that have these names, by default those that are there by default.

    None when one is not there, or by default the required one.
    """
    if names:
        return [parts[name] for name in parts if name in names] if names <= parts.keys() else None
    by_default = [located for located in parts.values() if located[2].by_default]
    return by_default if by_default and by_default[0][2].required else None
