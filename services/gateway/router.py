"""From a key to the instance that answers for it, and back with the answer."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from services.gateway.balance import SHARE, Balance
from services.gateway.owners import Owners, ServiceMap
from streamstate.keys import CODECS
from streamstate.web.client.instances import ANYONE, OWNER, STANDBY, Instances, Query, Unreachable
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import MOST_KEYS, not_ready
from streamstate.web.http.request import Response
from streamstate.web.partition_map import ViewEntry
from streamstate.web.server.openapi import MANY

ATTEMPTS = 2


class Router:
    """Sends requests straight to owners, or to the least busy instance where any one answers.

    The number of partitions is the topic's, as the service's state knows it, never the size of a map. Only addresses
    that discovery knows are dialled.
    """

    def __init__(self, owners: Owners, client: Instances) -> None:
        self._owners = owners
        self._client = client
        self._balance = Balance(client)

    async def one(self, known: ServiceMap, view: ViewEntry, text: str, query: Query, deadline: Deadline) -> Response:
        """The answer of a service's `view` for the key that `text` names (any text when it is not about a key).

        Raises `BadKey` for text that is no key of the view.
        """
        path = view.path.replace("<key>", quote(text, safe=""))
        if view.anywhere:
            if view.key:
                CODECS[view.key].parse(text)
            return await self._balance.get(self._owners.addresses[known.service], path, query, deadline)
        return await self._ask(known.service, known.owners.get(known.partition(view, text)), path, query, deadline)

    async def many(self, wanted: Iterable[tuple[str, str]], deadline: Deadline) -> Mapping[str, Mapping[str, Any]]:
        """The answers for (view, key text) by view and key, None for an unknown key; all owners are asked at once.

        Raises a `Problem` when a view is unknown, or an owner does not answer in time.
        """
        places: defaultdict[tuple[str, str | None], list[tuple[str, str]]] = defaultdict(list)
        for name, text in wanted:
            known = self._owners.with_keys(name)
            owner = known.owners.get(known.partition(known.views[name], text))
            places[known.service, owner].append((name, text))
        calls = [
            (service, owner, MANY, asked[first : first + MOST_KEYS], deadline)
            for (service, owner), asked in places.items()
            for first in range(0, len(asked), MOST_KEYS)
        ]
        answers = await asyncio.gather(*(self._ask(*call) for call in calls))
        merged: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for (service, *_), answer in zip(calls, answers, strict=True):
            if answer.status != 200:
                raise not_ready(f"{service} answered {answer.status}")
            for name, by_key in msgspec.json.decode(answer.body).items():
                merged[name] |= by_key
        return merged

    async def _ask(self, service: str, owner: str | None, path: str, query: Query, deadline: Deadline) -> Response:
        """The owner's answer. A 421 says who it is by now; when that does not help, another instance stands in."""
        marks = ANYONE
        for _ in range(ATTEMPTS if owner else 0):
            others = self._others(service, owner)
            ill = not self._client.well(str(owner)) and any(map(self._client.well, others))
            if ill or owner not in self._owners.addresses[service]:
                marks = STANDBY
                break
            share = deadline.share(SHARE) if others else deadline
            try:
                answer = await self._client.get(str(owner), path, share, query, OWNER)
            except Unreachable:
                self._owners.look_again()
                marks = STANDBY
                break
            if answer.status != 421:
                return answer
            self._owners.look_again()
            owner = str(msgspec.json.decode(answer.body)["owner"])
        return await self._balance.get(self._others(service, owner), path, query, deadline, marks)

    def _others(self, service: str, owner: str | None) -> Sequence[str]:
        return [address for address in self._owners.addresses[service] if address != owner]
