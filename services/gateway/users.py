"""Answers with names, and the joined answer about a user; services declare names and parts."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from services.gateway.documents import USERS
from services.gateway.names import NameCache, Names, add, named
from services.gateway.routing.directory import Directory, LocatedPart, ServiceMap, unknown
from services.gateway.routing.router import Router
from streamstate.errors import StreamStateError
from streamstate.keys import LONG
from streamstate.web.client.instances import Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.parameters import bad_parameter, require_known
from streamstate.web.http.problems import Problem, for_callers
from streamstate.web.http.request import Request, Response, json
from streamstate.web.partition_map import ViewEntry

PARTS, WARNINGS = "parts", "warnings"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Users:
    """Joins answers. `warnings` name missing parts and names.

    A request has one directory: its answer never joins two releases of a service.
    """

    def __init__(self, router: Router, names: NameCache) -> None:
        self._router = router
        self._names = names

    async def view(
        self, directory: Directory, known: ServiceMap, view: ViewEntry, text: str, request: Request
    ) -> Response:
        """The answer of `view` for the key `text`; unchanged unless the view has ids with names."""
        answer = await self._router.ask_view(known, view, text, request.query, request.deadline)
        if answer.status != 200 or not view.names:
            return answer
        joined = _joined([_decode(answer.body)], [])
        await self._add_names(directory, [joined], [view], request.deadline)
        if not (joined[WARNINGS] or view.names.empty_warnings):
            del joined[WARNINGS]
        return json(joined, answer.served_by, answer.headers)

    async def user(self, directory: Directory, parts: Sequence[LocatedPart], request: Request, key: str) -> Response:
        """The parts of a user. The first part leads: its headers are the answer's, and its failure the answer."""
        LONG.parse(key)
        query, deadline = request.query, request.deadline
        lead, *others = parts
        reads = [asyncio.create_task(self.part(part, key, query, deadline)) for part in others]
        try:
            answer = await self._ask(lead, key, query, deadline)
            if answer.status != 200:
                return answer
            bodies = [members(lead, _decode(answer.body)), *await asyncio.gather(*reads)]
        finally:
            for read in reads:
                read.cancel()
            # asyncio logs the exceptions of tasks that nobody awaits.
            await asyncio.gather(*reads, return_exceptions=True)
        return json(await self.profile(directory, bodies, parts, query, deadline), answer.served_by, answer.headers)

    async def many(
        self, directory: Directory, asked: Sequence[tuple[str, str]], deadline: Deadline
    ) -> Mapping[str, Mapping[str, Any]]:
        """The answers for (view, key text) by view and key, None for an unknown key.

        For `USERS`, the parts of `PARTS`, with names; None for a user unknown to the first part. Raises a `Problem`
        when an answer is missing.
        """
        views = [(name, text) for name, text in asked if name not in (USERS, PARTS)]
        users = dict.fromkeys(text for name, text in asked if name == USERS)
        if not users:
            return await self._router.many(directory, views, deadline)
        by_key = {name: located for name, located in directory.parts.items() if not located.view.anywhere}
        parts = _selected(directory, by_key, part_names(asked))
        of_parts = [(part.view.name, user) for part in parts for user in users]
        answers, bodies = await asyncio.gather(
            self._router.many(directory, views, deadline), self._router.many(directory, of_parts, deadline)
        )
        profiles = {
            user: _joined([members(part, bodies[part.view.name][user]) for part in parts], [])
            for user in users
            if bodies[parts[0].view.name][user]
        }
        await self._add_names(directory, profiles.values(), [part.view for part in parts], deadline)
        return {**answers, USERS: {**dict.fromkeys(users), **profiles}}

    async def profile(
        self,
        directory: Directory,
        bodies: Iterable[dict[str, Any]],
        parts: Sequence[LocatedPart],
        query: Query,
        deadline: Deadline,
    ) -> dict[str, Any]:
        """The joined `bodies`, answers of the `parts` of `query`, with names; changes `bodies`."""
        # The parts of a service are unknown before its first answer.
        missing = [] if part_names(query) else directory.missing()
        warnings = [f"{service}: {unknown(service)}" for service in missing]
        joined = _joined(bodies, warnings)
        await self._add_names(directory, [joined], [part.view for part in parts], deadline)
        return joined

    async def _add_names(
        self, directory: Directory, answers: Collection[dict[str, Any]], views: Sequence[ViewEntry], deadline: Deadline
    ) -> None:
        """Put names beside the ids in `answers`, joined answers of `views`."""
        places = [
            place for answer in answers for view in views if view.names for place in named(answer, view.names.views)
        ]
        names: Names = {}
        try:
            names = await self._names.get(directory, places, deadline)
        except StreamStateError as error:
            for answer in answers:
                answer[WARNINGS].append(f"names: {error}")
        add(names, places)

    async def _ask(self, located: LocatedPart, key: str, query: Query, deadline: Deadline) -> Response:
        known, view, part = located
        own = [(name, text) for name, text in query if name in part.parameters]
        return await self._router.ask_view(known, view, key, own, deadline)

    async def part(self, located: LocatedPart, key: str, query: Query, deadline: Deadline) -> dict[str, Any]:
        """The members of a part: empty for an unknown key, and after a failure, then with warnings.

        Raises a 400 `Problem` when the part refuses a parameter of `query`.
        """
        try:
            answer = await self._ask(located, key, query, deadline)
        except StreamStateError as error:
            return members(located, None, str(error))
        if answer.status == 404:
            return members(located, None)
        body = _decode(answer.body)
        if answer.status == 400:
            raise Problem(400, body["type"].rpartition(":")[2], body["detail"])
        return members(located, body) if answer.status == 200 else members(located, None, for_callers(body)["detail"])


def requested(directory: Directory, query: Query) -> Sequence[LocatedPart]:
    """The parts of `query`. Raises a 400 `Problem` for unknown parts, and for parameters of no part."""
    require_known(query, [PARTS, *(name for _, _, part in directory.parts.values() for name in part.parameters)])
    return _selected(directory, directory.parts, part_names(query))


def _selected(directory: Directory, parts: Mapping[str, LocatedPart], names: Set[str]) -> Sequence[LocatedPart]:
    """As `select`; raises a 400 `Problem` in place of None."""
    if (selected := select(parts, names)) is None:
        known = f"{PARTS}: name some of {', '.join(parts)}, separated by commas"
        raise directory.absent(bad_parameter(f"{known}; a profile is a part by `part: true` in its file"))
    return selected


def part_names(query: Iterable[tuple[str, str]]) -> set[str]:
    return {name for parameter, text in query if parameter == PARTS for name in text.split(",")}


def _joined(bodies: Iterable[dict[str, Any]], warnings: list[str]) -> dict[str, Any]:
    """The joined members of `bodies`, with `warnings` before the warnings of `bodies`."""
    joined: dict[str, Any] = {}
    for body in bodies:
        warnings += body.pop(WARNINGS, ())
        joined |= body
        joined.setdefault(WARNINGS, warnings)
    return joined


def members(located: LocatedPart, body: dict[str, Any] | None, reason: str = "") -> dict[str, Any]:
    """The members of the answer `body` of a part; empty without an answer, with warnings for a `reason`."""
    _, view, part = located
    if body is not None:
        return {view.name: body} if part.nested else body
    named = (view.name,) if part.nested else part.members
    warnings = [f"{member}: {reason}" for member in named] if reason else []
    empty: dict[str, Any] = {view.name: None} if part.nested else {m: [] for m in (*part.members, *part.remarks)}
    return {**empty, WARNINGS: warnings}


def select(parts: Mapping[str, LocatedPart], names: Set[str]) -> Sequence[LocatedPart] | None:
    """The parts called `names`, or the default parts; None if a named part, or the required part, is missing."""
    if names:
        return [parts[name] for name in parts if name in names] if names <= parts.keys() else None
    by_default = [located for located in parts.values() if located.part.by_default]
    return by_default if by_default and by_default[0].part.required else None
