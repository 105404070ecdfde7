"""An instance's routes for the gateway about one user: the export of all data in the state, and the deletion."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from streamstate.app import App
from streamstate.erasure.topic import DeletionTopic
from streamstate.errors import BadKey
from streamstate.state.operations import HistoryDays, Read
from streamstate.view import MOST_MEMBERS
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.openapi import Routes
from streamstate.web.state import AppState

DELETION, EXPORT = "/user-deletions/<key>", "/user-exports/<key>"
"""Internal paths, for the gateway."""

Held = Callable[[str], Mapping[str, Any]]

T = TypeVar("T")


class PartitionErasure(msgspec.Struct):
    """A partition of a state from which a user is deleted.

    before: by topic, the offset before which the user's records do not count: the topic's end at the request or, once
        `done`, the state's offset at the deletion, whichever is greater.
    """

    partition: int
    done: bool
    before: dict[str, int]


class ServiceErasure(msgspec.Struct):
    """The deletion of a user in a service; without a request, without partitions."""

    service: str
    partitions: list[PartitionErasure]


class ServiceExport(msgspec.Struct):
    """A service's data of a user, by state key. `truncated` names the keys with further members."""

    service: str
    held: dict[str, Any]
    truncated: list[str]


def nothing(_user: str) -> Mapping[str, Any]:
    return {}


class UserData:
    """The routes of an instance. Without a topic of `deletions` users are not deleted.

    held: the data of a user that the process holds outside the state.
    """

    def __init__(
        self, app: App, state: AppState, address: str, deletions: DeletionTopic | None, held: Held = nothing
    ) -> None:
        self._app = app
        self._state = state
        self._address = address
        self._deletions = deletions
        self._held = held
        self._one_at_a_time = threading.Lock()

    def add_to(self, routes: Routes) -> None:
        """Add the routes, if the app has users."""
        if self._app.user_folds:
            routes.hidden(DELETION, "user-deletion", self.deletion_status)
            routes.hidden(DELETION, "delete-user", self.delete, methods=("DELETE",))
            routes.hidden(EXPORT, "user-export", self.export)

    async def delete(self, _request: Request, key: str) -> Response:
        """Request the deletion of a user; returns when Kafka has the request."""
        requests = await self._ask(lambda topic: topic.request(self._app, key))
        return self._answer(
            PartitionErasure(
                deletion.partition, done=False, before={topic: end.offset for topic, end in deletion.bounds.items()}
            )
            for deletion in requests
        )

    async def deletion_status(self, _request: Request, key: str) -> Response:
        """The progress of the deletion of a user."""
        asked = await self._ask(lambda topic: topic.asked(self._app, key))
        snapshots = await self._state.read({partition: [] for partition, _ in asked})
        return self._answer(
            PartitionErasure(
                partition,
                (snapshots[partition].deletions or 0) > deletion.request,
                {topic: end.offset for topic, end in deletion.bounds.items()},
            )
            for partition, deletion in asked
        )

    def _answer(self, partitions: Iterable[PartitionErasure]) -> Response:
        return json(ServiceErasure(self._app.name, list(partitions)), self._address)

    async def export(self, _request: Request, key: str) -> Response:
        """All data of a user in the state."""
        counts = await self._state.counts()
        reads: defaultdict[int, list[Read]] = defaultdict(list)
        for fold, users in self._app.user_folds:
            source = fold.sources[0]
            # Another service's user may be an invalid key here.
            with suppress(BadKey):
                user = source.key.parse(key)
                partition = source.partition(user, counts[source.topic])
                reads[partition] += [place.read for place in users.places(user)]
        held: dict[str, Any] = {}
        with suppress(BadKey):
            held |= {name: value for name, value in self._held(key).items() if value}
        for partition, snapshot in (await self._state.read(reads)).items():
            self._state.require_ready(partition, snapshot, self._app.topics)
            found = zip(reads[partition], snapshot.values, strict=True)
            held |= {read.key: data for read, value in found if (data := of_user(read, value))}
        truncated = [name for name, value in held.items() if isinstance(value, list) and len(value) >= MOST_MEMBERS]
        return json(ServiceExport(self._app.name, held, truncated), self._address)

    async def _ask(self, question: Callable[[DeletionTopic], T]) -> T:
        """The result of `question`, run in a thread: it continues after the request's deadline."""

        def asking() -> T:
            if self._deletions is None:
                raise Problem(404, "not-found", "users are not deleted here: STREAMSTATE_DELETIONS is empty")
            with self._one_at_a_time:
                return question(self._deletions)

        return await asyncio.to_thread(asking)


def of_user(read: Read, value: Any) -> Any:
    """The data of a user in the value of `read`: of a history the days, without the time of their expiry."""
    return value[1] if isinstance(read, HistoryDays) else value
