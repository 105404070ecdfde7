"""From a key to the instance that answers for it, and back with the answer."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import Any
from urllib.parse import quote

from services.gateway.balance import Balance
from services.gateway.owners import Owners
from streamstate.kafka import Topics
from streamstate.keys import CODECS, partition_of
from streamstate.web.client import ANYONE, STANDBY, Answer, Instances, Marks, Slow, Unreachable
from streamstate.web.deadline import Deadline
from streamstate.web.openapi import MANY
from streamstate.web.problems import MOST_KEYS, Problem, not_ready
from streamstate.web.processors import ViewEntry

ATTEMPTS = 2
Query = Sequence[tuple[str, str]]


class Router:
    """Sends requests straight to owners, or to the least busy instance where any one answers.

    The number of partitions is the topic's, from Kafka, never the size of a map.
    """

    def __init__(self, owners: Owners, topics: Topics, client: Instances, executor: Executor) -> None:
        self._owners = owners
        self._topics = topics
        self._client = client
        self._executor = executor
        self._balance = Balance(client)

    def one(self, service: str, view: ViewEntry, text: str, query: Query, deadline: Deadline) -> Answer:
        """The answer of `view` for the key that `text` names (any text when the view is not about a key).

        Raises `BadKey` for text that is no key of the view.
        """
        path = view.path.replace("<key>", quote(text, safe=""))
        if view.anywhere:
            if view.key:
                CODECS[view.key].parse(text)
            return self._balance.get(self._owners.others(service, None), path, query, deadline)
        owner = self._owners.service(service).owners.get(self._partition(view, text))
        return self._ask(service, owner, path, query, deadline)

    def many(self, service: str, wanted: Iterable[tuple[str, str]], deadline: Deadline) -> dict[tuple[str, str], Any]:
        """The answers for (view, key text), asked of all owners at the same time; None for a key that is unknown.

        Raises a `Problem` when an owner does not answer in time.
        """
        views = {view.name: view for view in self._owners.service(service).processors.views}
        owners = self._owners.service(service).owners
        places: dict[str | None, list[tuple[str, str]]] = defaultdict(list)
        for name, text in wanted:
            places[owners.get(self._partition(views[name], text))].append((name, text))
        calls = [
            self._executor.submit(self._ask, service, owner, MANY, asked[first : first + MOST_KEYS], deadline)
            for owner, asked in places.items()
            for first in range(0, len(asked), MOST_KEYS)
        ]
        found: dict[tuple[str, str], Any] = {}
        for call in calls:
            answer = call.result()
            if answer.status != 200:
                raise not_ready(f"{service} answered {answer.status}")
            found |= {(name, text): one for name, some in answer.json().items() for text, one in some.items()}
        return found

    def _partition(self, view: ViewEntry, text: str) -> int:
        codec = CODECS[view.key]
        return partition_of(codec.encode(codec.parse(text)), self._topics.partitions(view.topic))

    def _ask(self, service: str, owner: str | None, path: str, query: Query, deadline: Deadline) -> Answer:
        """The owner's answer. A 421 says who it is by now; when that does not help, another instance stands in."""
        for _ in range(ATTEMPTS if owner else 0):
            try:
                answer = self._client.get(str(owner), path, deadline, query)
            except Unreachable as error:
                if not isinstance(error, Slow):
                    self._owners.look_again()
                return self._stand_in(service, owner, path, query, deadline, STANDBY)
            if answer.status != 421:
                return answer
            self._owners.look_again()
            owner = answer.json()["owner"]
        return self._stand_in(service, owner, path, query, deadline, ANYONE)

    def _stand_in(
        self, service: str, owner: str | None, path: str, query: Query, deadline: Deadline, marks: Marks
    ) -> Answer:
        for address in self._owners.others(service, owner):
            try:
                return self._client.get(address, path, deadline, query, marks)
            except Unreachable:
                continue
        raise Problem(503, "no-instance", f"no instance of {service} can be reached; ask again in 1 s")
