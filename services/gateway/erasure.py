"""Requests to all services about one user: deletion, its progress, and export."""

import asyncio
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from services.gateway.routing.owners import Owners
from services.gateway.routing.upstream import Upstream
from streamstate.keys import TEXT
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem, not_ready
from streamstate.web.http.request import Request, Response, json
from streamstate.web.user_data import DELETION, EXPORT, PartitionErasure, ServiceErasure, ServiceExport

NAME = "gateway"
PATH, EXPORTED = "/v1/users/<key>/deletion", "/v1/users/<key>/export"


class UserDeletion(msgspec.Struct, rename="camel"):
    """The deletion of a user, by service. `done`: no state and no later build has the user."""

    user_id: str
    done: bool
    services: list[ServiceErasure]


class UserExport(msgspec.Struct, rename="camel"):
    """The data of a user, by service."""

    user_id: str
    services: list[ServiceExport]


EXAMPLE_DELETION = UserDeletion(
    "42", True, [ServiceErasure("metrics", [PartitionErasure(3, True, {"listening-events": 17})])]
)
EXAMPLE_EXPORT = UserExport(
    "42",
    [
        ServiceExport(
            "metrics", {"numbers:42": {"#": 3, "first": 1_000, "last": 3_000}, "artists.values:42": [["a1", 3]]}, []
        )
    ],
)


class ErasureRoutes:
    """The routes. An answer has all services with users; without one service, the request fails."""

    def __init__(self, owners: Owners, upstream: Upstream) -> None:
        self._owners = owners
        self._upstream = upstream

    async def delete(self, request: Request, key: str) -> Response:
        """Request the deletion in all services. A request stays valid in a service when another service fails."""
        deletion = await self._deletion("DELETE", request, key)
        if not deletion.services:
            raise Problem(404, "unknown-key", "no service has users with such ids; check it")
        location = PATH.replace("<key>", quote(key, safe=""))
        return json(deletion, NAME, {"Location": location})._replace(status=202)

    async def deletion_status(self, request: Request, key: str) -> Response:
        """The progress of a deletion."""
        deletion = await self._deletion("GET", request, key)
        if not deletion.services:
            raise Problem(404, "unknown-key", "the deletion of this user was not asked for; DELETE /v1/users/{userId}")
        return json(deletion, NAME)

    async def export(self, request: Request, key: str) -> Response:
        """The data of a user."""
        answers = await self._all("GET", EXPORT, key, request.deadline)
        services = [msgspec.json.decode(body, type=ServiceExport) for body in answers.values()]
        known = [export for export in services if export.held]
        if not known:
            raise Problem(404, "unknown-key", "nothing is held of this user; check the id")
        return json(UserExport(key, known), NAME)

    async def _deletion(self, method: str, request: Request, key: str) -> UserDeletion:
        answers = await self._all(method, DELETION, key, request.deadline)
        services = [msgspec.json.decode(body, type=ServiceErasure) for body in answers.values()]
        requested = [erasure for erasure in services if erasure.partitions]
        done = all(partition.done for erasure in requested for partition in erasure.partitions)
        return UserDeletion(key, done, requested)

    async def _all(self, method: str, path: str, key: str, deadline: Deadline) -> Mapping[str, bytes]:
        """The answers by service. Raises a 503 `Problem` when a service does not answer."""
        TEXT.parse(key)
        directory = self._owners.now
        if missing := directory.missing():
            raise not_ready(f"no instance of {', '.join(missing)} answers, which may hold something of the user")
        services = [known.deployment for known in directory.maps.values() if known.processors.users]
        path = path.replace("<key>", quote(key, safe=""))
        calls = (self._upstream.get(name, None, path, (), deadline, method) for name in services)
        answers = dict(zip(services, await asyncio.gather(*calls), strict=True))
        for name, answer in answers.items():
            if answer.status != 200:
                detail = f"{name}: {msgspec.json.decode(answer.body)['detail']}"
                raise Problem(404, "not-found", detail) if answer.status == 404 else not_ready(detail)
        return {name: answer.body for name, answer in answers.items()}
