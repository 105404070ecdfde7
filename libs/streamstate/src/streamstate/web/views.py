"""Answers to views: from the state, by the owner of the key's partition."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from streamstate.app import App, Question, View
from streamstate.settings import ApiSettings
from streamstate.state.reads import Read
from streamstate.state.store import Snapshot
from streamstate.web.client.instances import DIRECT, STAND_IN, Answer, Instances, Unreachable, relay
from streamstate.web.consistency import Demands
from streamstate.web.freshness import Freshness
from streamstate.web.http import parameters
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import MOST_KEYS, bad_query, not_the_owner, unknown_key
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.telemetry import Telemetry
from streamstate.web.state import State

STANDBY = "standby"


class Answers:
    """Answers for one instance.

    Every answer is read in one piece with the owner of its partition, so none comes from the wrong place: a key of
    another instance is asked of that one, once; when it cannot be reached, the state answers here as `standby`, since
    it holds what was committed, whoever committed it.
    """

    def __init__(
        self,
        app: App,
        settings: ApiSettings,
        state: State,
        freshness: Freshness,
        demands: Demands,
        instances: Instances,
        telemetry: Telemetry,
    ) -> None:
        self._app = app
        self._address = settings.advertise
        self._state = state
        self._freshness = freshness
        self._demands = demands
        self._instances = instances
        self._telemetry = telemetry
        self._views = {view.name: view for view in app.views if view.topic is not None}

    async def one(self, view: View[Any], text: str, request: Request) -> Response:
        """The answer of `view` for the key that `text` names."""
        question = _question(view, text, request)
        (partition,) = question.partitions(await self._state.counts())
        snapshots = await self._read({partition: question.reads}, request.deadline)
        snapshot = snapshots[partition]
        served_by = self._served_by(partition, snapshot, request)
        if served_by == STANDBY:
            if passed_on := await self._pass_on(str(snapshot.owner), request):
                return relay(passed_on)
            self._telemetry.stood_in.inc()
        self._state.require_ready(partition, snapshot, self._app.topics_of(view))
        return self._told(view, question.answer(snapshot.values), served_by, snapshots)

    async def all(self, view: View[Any], text: str, request: Request) -> Response:
        """The answer of a `view` over all partitions, whoever owns them."""
        question = _question(view, text, request)
        partitions = question.partitions(await self._state.counts())
        snapshots = await self._read(dict.fromkeys(partitions, question.reads), request.deadline)
        for partition, snapshot in snapshots.items():
            self._state.require_ready(partition, snapshot, self._app.topics_of(view))
        found = question.answer([snapshot.values for snapshot in snapshots.values()])
        return self._told(view, found, self._address, snapshots)

    async def many(self, request: Request) -> Response:
        """The answers for many keys of one or several views: `{view: {key: answer or null}}`."""
        asked = asked_for_many(request, self._views)
        if any(name not in self._views for name, _ in asked):
            raise bad_query(self._views)
        counts = await self._state.counts()
        places: dict[int, list[tuple[str, Question]]] = defaultdict(list)
        for text, question in ((text, self._views[name].ask(text)) for name, text in asked):
            (partition,) = question.partitions(counts)
            places[partition].append((text, question))
        reads = {
            partition: [read for _, question in asked for read in question.reads] for partition, asked in places.items()
        }
        answers: dict[str, dict[str, Any]] = {name: {} for name, _ in asked}
        snapshots = await self._read(reads, request.deadline)
        for partition, snapshot in snapshots.items():
            self._served_by(partition, snapshot, request)
            topics = {topic for _, question in places[partition] for topic in self._app.topics_of(question.view)}
            self._state.require_ready(partition, snapshot, topics)
            values = iter(snapshot.values)
            for text, question in places[partition]:
                answers[question.view.name][text] = question.answer([next(values) for _ in question.reads])
        return json(answers, self._address, self._state.headers_of(snapshots))

    async def _read(self, reads: Mapping[int, Sequence[Read]], deadline: Deadline) -> Mapping[int, Snapshot]:
        return await self._demands.met(lambda: self._state.read(reads), self._state.positions_of, deadline)

    def _told(self, view: View[Any], found: Any, served_by: str, snapshots: Mapping[int, Snapshot]) -> Response:
        if found is None:
            raise unknown_key(view.name)
        return json(found, served_by, self._state.headers_of(snapshots))

    def _served_by(self, partition: int, snapshot: Snapshot, request: Request) -> str:
        """Who answers for `snapshot`. Raises a 421 `Problem` when the caller wrongly believes to ask the owner."""
        if snapshot.owner is None or snapshot.owner == self._address:
            return self._address
        if DIRECT.lower() in request.headers:
            raise not_the_owner(partition, snapshot.owner)
        return STANDBY

    async def _pass_on(self, owner: str, request: Request) -> Answer | None:
        """The owner's answer to this request, None when it cannot be reached."""
        if STAND_IN.lower() in request.headers:
            return None
        self._telemetry.forwarded.inc()
        try:
            return await self._instances.get(owner, quote(request.path), request.deadline.share(0.5), request.query)
        except Unreachable:
            return None


def _question(view: View[Any], text: str, request: Request) -> Question:
    """The question of `request`; raises a 400 `Problem` for parameters that are not as the view has them."""
    return view.ask(text, None if view.query is None else parameters.parse(view.query, request.query))


def asked_for_many(request: Request, views: Iterable[str]) -> Sequence[tuple[str, str]]:
    """(View name, key text) of `request`; raises a 400 `Problem` that names `views` for none, or too many."""
    if not 0 < len(request.query) <= MOST_KEYS:
        raise bad_query(views)
    return request.query
