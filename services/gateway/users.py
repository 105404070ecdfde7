"""What is answered of a user: parts of several services, asked for at the same time, with names."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor

import msgspec
from flask import Response, request

from services.events import KINDS
from services.gateway import profile, recommended
from services.gateway.names import Names, Thing
from services.gateway.owners import Owners
from services.gateway.router import Query, Router
from services.metrics.model import Profile
from services.recommendations.answers import Recommendations, view
from streamstate.keys import LONG
from streamstate.web.answers import json, relay
from streamstate.web.client import Answer
from streamstate.web.deadline import Deadline
from streamstate.web.problems import Problem

_decode_profile = msgspec.json.Decoder(Profile).decode
_decode_recommendations = msgspec.json.Decoder(Recommendations).decode


class Users:
    """The routes of a user. A part that fails is named in `warnings`; without the plays there is no answer."""

    def __init__(self, owners: Owners, router: Router, names: Names, executor: Executor, deadline_ms: int) -> None:
        self._owners = owners
        self._router = router
        self._names = names
        self._executor = executor
        self._deadline_ms = deadline_ms

    def metrics(self, key: str) -> Response:
        """The plays in numbers."""
        deadline = Deadline.of_request(self._deadline_ms)
        answer = self._ask("metrics", "metrics", key, _query(), deadline)
        if answer.status != 200:
            return relay(answer)
        found = _decode_profile(answer.body)
        names, warnings = self._named(profile.things(found), deadline)
        return json(profile.metrics(found, names, warnings), answer.served_by, answer.told)

    def recommendations(self, kind: str, key: str) -> Response:
        """The items of one kind."""
        deadline = Deadline.of_request(self._deadline_ms)
        answer = self._ask("recommendations", view(kind), key, _query(), deadline)
        if answer.status != 200:
            return relay(answer)
        found = _decode_recommendations(answer.body)
        names, warnings = self._named(recommended.things(kind, found), deadline)
        return json(recommended.named(kind, found, names, warnings), answer.served_by, answer.told)

    def profile(self, key: str) -> Response:
        """All of it."""
        deadline = Deadline.of_request(self._deadline_ms)
        LONG.parse(key)
        calls = {kind: self._executor.submit(self._recommended, kind, key, deadline) for kind in KINDS}
        answer = self._ask("metrics", "metrics", key, _query(), deadline)
        if answer.status != 200:
            return relay(answer)
        plays = _decode_profile(answer.body)
        found, warnings = {}, []
        for kind, call in calls.items():
            try:
                found[kind] = call.result()
            except Problem as problem:
                warnings.append(f"{profile.member(kind)}: {problem.detail}")
        things = [thing for kind, some in found.items() for thing in recommended.things(kind, some)]
        names, more = self._named([*profile.things(plays), *things], deadline)
        return json(profile.merged(plays, found, names, warnings + more), answer.served_by, answer.told)

    def _recommended(self, kind: str, key: str, deadline: Deadline) -> Recommendations:
        answer = self._ask("recommendations", view(kind), key, (), deadline)
        if answer.status != 200:
            raise Problem(answer.status, "no-recommendations", answer.json()["detail"])
        return _decode_recommendations(answer.body)

    def _ask(self, service: str, name: str, key: str, query: Query, deadline: Deadline) -> Answer:
        return self._router.one(service, self._owners.service(service).view(name), key, query, deadline)

    def _named(self, things: Iterable[Thing], deadline: Deadline) -> tuple[recommended.Found, list[str]]:
        """The names, and what is to be said when they cannot be had."""
        try:
            return self._names.find(things, deadline), []
        except Problem as problem:
            return {}, [f"names: {problem.detail}"]


def _query() -> Sequence[tuple[str, str]]:
    return list(request.args.items(multi=True))
