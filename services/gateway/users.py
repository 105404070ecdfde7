"""Answers about a user: what services know by ids, joined with names, and all of it as one profile."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from services.events import KINDS
from services.gateway import profile, recent, recommended
from services.gateway.names import NameCache, Names, Thing
from services.gateway.owners import Owners
from services.gateway.profile import UserMetrics, UserProfile
from services.gateway.recommended import NamedRecommendations
from services.gateway.router import Router
from services.names.model import RecentPlays
from services.recommendations.answers import ALL_KINDS, view
from streamstate.keys import LONG
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Request, Response, json

T = TypeVar("T")

_decode_profile = msgspec.json.Decoder(UserProfile).decode
_decode_all_kinds = msgspec.json.Decoder(dict[str, NamedRecommendations]).decode


@dataclass(frozen=True)
class NamedView(Generic[T]):
    """A view of a service, and how its answer gets names.

    decode: bytes → the answer of the service.
    things: answer → whatever has a name in it.
    named: (answer, names, warnings) → the answer of the gateway.
    """

    service: str
    view: str
    decode: Callable[[bytes], T]
    things: Callable[[T], Iterable[Thing]]
    named: Callable[[T, Names, list[str]], msgspec.Struct]


METRICS = NamedView("metrics", "metrics", msgspec.json.Decoder(UserMetrics).decode, profile.things, profile.named)
RECENT = NamedView("names", "recent", msgspec.json.Decoder(RecentPlays).decode, recent.things, recent.named)
RECOMMENDATIONS = {
    kind: NamedView(
        "recommendations",
        view(kind),
        msgspec.json.Decoder(NamedRecommendations).decode,
        partial(recommended.things, kind),
        partial(recommended.named, kind),
    )
    for kind in KINDS
}


class Users:
    """The routes of a user. A part that fails is named in `warnings`; without the plays there is no answer."""

    def __init__(self, owners: Owners, router: Router, names: NameCache) -> None:
        self._owners = owners
        self._router = router
        self._names = names

    async def named(self, named_view: NamedView[Any], request: Request, key: str) -> Response:
        """The answer of a view, with names."""
        answer = await self._ask(named_view, key, request)
        if answer.status != 200:
            return answer
        decoded = named_view.decode(answer.body)
        names, warnings = await self._names_of(named_view.things(decoded), request.deadline)
        return json(named_view.named(decoded, names, warnings), answer.served_by, answer.headers)

    async def profile(self, request: Request, key: str) -> Response:
        """The plays in numbers and the recommendations, with names."""
        LONG.parse(key)
        walking = asyncio.create_task(self._recommended(key, request.deadline))
        try:
            answer = await self._ask(METRICS, key, request)
            if answer.status != 200:
                return answer
            plays = _decode_profile(answer.body)
            by_kind, warnings = await walking
        finally:
            walking.cancel()
        things = [thing for kind, items in by_kind.items() for thing in recommended.things(kind, items)]
        names, more = await self._names_of([*profile.things(plays), *things], request.deadline)
        return json(profile.merged(plays, by_kind, names, warnings + more), answer.served_by, answer.headers)

    async def _recommended(self, key: str, deadline: Deadline) -> tuple[Mapping[str, NamedRecommendations], list[str]]:
        """Recommendations by kind, and warnings when they cannot be had."""
        try:
            answer = await self._router.anyone("recommendations", ALL_KINDS.replace("<key>", key), (), deadline)
            detail = "" if answer.status == 200 else msgspec.json.decode(answer.body)["detail"]
        except Problem as problem:
            detail = problem.detail
        if detail:
            return {}, [f"{profile.member(kind)}: {detail}" for kind in KINDS]
        return _decode_all_kinds(answer.body), []

    async def _ask(self, asked: NamedView[Any], key: str, request: Request) -> Response:
        service = await self._owners.service(asked.service)
        return await self._router.one(asked.service, service.views[asked.view], key, request.query, request.deadline)

    async def _names_of(self, things: Iterable[Thing], deadline: Deadline) -> tuple[Names, list[str]]:
        """The names, and a warning when they cannot be had."""
        try:
            return await self._names.get(things, deadline), []
        except Problem as problem:
            return {}, [f"names: {problem.detail}"]
