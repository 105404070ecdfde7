"""Routes requests by key to the owners of partitions."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from services.gateway.routing.directory import Directory, ServiceMap
from services.gateway.routing.upstream import Upstream
from streamstate.keys import CODECS
from streamstate.state.store import Positions, TopicPartition, offsets_of
from streamstate.web.client.instances import Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.parameters import bad_parameter
from streamstate.web.http.problems import MOST_KEYS, not_ready
from streamstate.web.http.request import POSITION, Response
from streamstate.web.partition_map import ViewEntry
from streamstate.web.server.openapi import MANY

MOST_QUERY_BYTES = 8_000
"""The longest query in a request line."""


class Router:
    """Sends requests to owners, or for views of any instance to the least busy instance.

    The state of a service gives the partition count of a topic, never the size of a map. Only discovered addresses are
    called.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def ask_view(
        self, known: ServiceMap, view: ViewEntry, text: str, query: Query, deadline: Deadline
    ) -> Response:
        """The answer of `view` for the key `text`, ignored by a view without a key.

        Raises `BadKey` for a text that is no key of the view.
        """
        path = view.path.replace("<key>", quote(text, safe=""))
        if view.anywhere:
            if view.key:
                CODECS[view.key].parse(text)
            return await self._upstream.get(known.deployment, None, path, query, deadline, key=text)
        owner = known.owners.get(known.partition(view, text))
        return await self._upstream.get(known.deployment, owner, path, query, deadline)

    async def body(self, directory: Directory, path: str, query: Query, deadline: Deadline) -> bytes:
        """The answer of the view over all keys at `path`. Raises a `Problem` for any other answer."""
        known, view, _ = directory.find(path)
        answer = await self.ask_view(known, view, "", query, deadline)
        if answer.status == 400:
            raise bad_parameter(msgspec.json.decode(answer.body)["detail"])
        if answer.status != 200:
            raise not_ready(f"{known.service} answered {answer.status}")
        return answer.body

    async def many(
        self, directory: Directory, wanted: Iterable[tuple[str, str]], deadline: Deadline
    ) -> Mapping[str, Mapping[str, Any]]:
        """The answers for (view, key text) by view and key, None for an unknown key; all owners are asked at once.

        Raises a `Problem` when a view is unknown, or an owner does not answer in time.
        """
        return (await self.many_at(directory, wanted, deadline))[0]

    async def many_at(
        self, directory: Directory, wanted: Iterable[tuple[str, str]], deadline: Deadline, path: str = MANY
    ) -> tuple[Mapping[str, Mapping[str, Any]], Positions]:
        """As `many`, or the answers at `path`, with the positions of partitions; `wanted` are keys of one service."""
        places: defaultdict[tuple[str, str | None], list[tuple[str, str]]] = defaultdict(list)
        for name, text in wanted:
            known = directory.with_keys(name)
            owner = known.owners.get(known.partition(known.views[name], text))
            places[known.deployment, owner].append((name, text))
        calls = [
            (service, owner, path, query, deadline)
            for (service, owner), asked in places.items()
            for query in queries(asked)
        ]
        answers = await asyncio.gather(*(self._upstream.get(*call) for call in calls))
        merged: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        positions: dict[TopicPartition, int] = {}
        for (service, *_), answer in zip(calls, answers, strict=True):
            if answer.status != 200:
                raise not_ready(f"{service} answered {answer.status}")
            for name, by_key in msgspec.json.decode(answer.body).items():
                merged[name] |= by_key
            positions |= offsets_of(answer.headers.get(POSITION, ""))
        return merged, positions


def queries(asked: Iterable[tuple[str, str]]) -> Iterator[Query]:
    """`asked` in parts within the limits of a request."""
    query: list[tuple[str, str]] = []
    size = 0
    for parameter in asked:
        length = len(urlencode([parameter])) + 1
        if len(query) == MOST_KEYS or size + length > MOST_QUERY_BYTES:
            yield query
            query, size = [], 0
        query.append(parameter)
        size += length
    yield query
