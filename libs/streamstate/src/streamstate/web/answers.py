"""Answers to views: from the state, by the owner of the key's partition."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from flask import Response, request

from streamstate.app import App, Question, View
from streamstate.kafka import Topics
from streamstate.origins import require_same_widths
from streamstate.settings import ApiSettings
from streamstate.state import Read, Snapshot, Store
from streamstate.web import query
from streamstate.web.client import DIRECT, SERVED_BY, STAND_IN, Answer, Instances, Unreachable
from streamstate.web.deadline import Deadline
from streamstate.web.freshness import Freshness, Positions
from streamstate.web.problems import MOST_KEYS, RETRY_AFTER_S, bad_query, not_ready, not_the_owner, unknown_key
from streamstate.web.telemetry import Telemetry

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
        store: Store,
        topics: Topics,
        freshness: Freshness,
        instances: Instances,
        telemetry: Telemetry,
    ) -> None:
        self._app = app
        self._address = settings.advertise
        self._deadline_ms = settings.deadline_ms
        self._store = store
        self._topics = topics
        self._freshness = freshness
        self._instances = instances
        self._telemetry = telemetry

    def one(self, view: View[Any], text: str) -> Response:
        """The answer of `view` for the key that `text` names."""
        deadline = Deadline.of_request(self._deadline_ms)
        question = _question(view, text)
        counts = self._counts()
        (partition,) = question.partitions(counts)
        snapshots = self._read({partition: question.reads}, counts, deadline)
        snapshot = snapshots[partition]
        served_by = self._served_by(partition, snapshot)
        if served_by == STANDBY:
            if passed_on := self._pass_on(str(snapshot.owner), deadline):
                return relay(passed_on)
            self._telemetry.stood_in.inc()
        require_ready(partition, snapshot)
        return self._told(view, question.answer(snapshot.values), served_by, snapshots)

    def all(self, view: View[Any], text: str) -> Response:
        """The answer of a `view` over all partitions, whoever owns them."""
        deadline = Deadline.of_request(self._deadline_ms)
        question = _question(view, text)
        counts = self._counts()
        snapshots = self._read(dict.fromkeys(question.partitions(counts), question.reads), counts, deadline)
        for partition, snapshot in snapshots.items():
            require_ready(partition, snapshot)
        found = question.answer([snapshot.values for snapshot in snapshots.values()])
        return self._told(view, found, self._address, snapshots)

    def _told(self, view: View[Any], found: Any, served_by: str, snapshots: Mapping[int, Snapshot]) -> Response:
        if found is None:
            raise unknown_key(view.name)
        return json(found, served_by, self._freshness.headers(self._positions(snapshots)))

    def many(self) -> Response:
        """The answers for many keys of one or several views: `{view: {key: answer or null}}`."""
        deadline = Deadline.of_request(self._deadline_ms)
        places: dict[int, list[tuple[str, Question]]] = defaultdict(list)
        counts = self._counts()
        for text, question in self._asked():
            (partition,) = question.partitions(counts)
            places[partition].append((text, question))
        reads: dict[int, list[Read]] = {
            partition: [read for _, question in asked for read in question.reads] for partition, asked in places.items()
        }
        answers: dict[str, dict[str, Any]] = {name: {} for name in request.args}
        snapshots = self._read(reads, counts, deadline)
        for partition, snapshot in snapshots.items():
            self._served_by(partition, snapshot)
            require_ready(partition, snapshot)
            values = iter(snapshot.values)
            for text, question in places[partition]:
                answers[question.view.name][text] = question.answer([next(values) for _ in question.reads])
        return json(answers, self._address, self._freshness.headers(self._positions(snapshots)))

    def _read(
        self, reads: Mapping[int, Sequence[Read]], counts: Mapping[str, int], deadline: Deadline
    ) -> Mapping[int, Snapshot]:
        """Raises `Misconfigured` for a state that was built when there were other counts than these."""
        snapshots = self._freshness.demanded(lambda: self._store.read(reads), self._positions, deadline)
        require_same_widths(snapshots.values(), counts)
        return snapshots

    def _positions(self, snapshots: Mapping[int, Snapshot]) -> Positions:
        return {
            (topic, partition): snapshot.positions.get(topic, 0)
            for partition, snapshot in snapshots.items()
            for topic in self._app.topics
            if partition < self._topics.partitions(topic)
        }

    def _asked(self) -> list[tuple[str, Question]]:
        views = {view.name: view for view in self._app.views if view.topic is not None}
        asked = asked_for_many(views)
        if any(name not in views for name, _ in asked):
            raise bad_query(views)
        return [(text, views[name].ask(text)) for name, text in asked]

    def _counts(self) -> Mapping[str, int]:
        return {topic: self._topics.partitions(topic) for topic in self._app.topics}

    def _served_by(self, partition: int, snapshot: Snapshot) -> str:
        """Who answers for `snapshot`. Raises a 421 `Problem` when the caller wrongly believes to ask the owner."""
        if snapshot.owner is None or snapshot.owner == self._address:
            return self._address
        if DIRECT in request.headers:
            raise not_the_owner(partition, snapshot.owner)
        return STANDBY

    def _pass_on(self, owner: str, deadline: Deadline) -> Answer | None:
        """The owner's answer to this request, None when it cannot be reached."""
        if STAND_IN in request.headers:
            return None
        self._telemetry.forwarded.inc()
        try:
            return self._instances.get(owner, quote(request.path), deadline, list(request.args.items(multi=True)))
        except Unreachable:
            return None


def _question(view: View[Any], text: str) -> Question:
    """The question of this request; raises a 400 `Problem` for parameters that are not as the view has them."""
    return view.ask(text, None if view.query is None else query.parse(view.query))


def asked_for_many(views: Iterable[str]) -> list[tuple[str, str]]:
    """(View name, key text) of this request; raises a 400 `Problem` when there are none, or too many."""
    asked = list(request.args.items(multi=True))
    if not 0 < len(asked) <= MOST_KEYS:
        raise bad_query(views)
    return asked


def require_ready(partition: int, snapshot: Snapshot) -> None:
    """Raise a 503 `Problem` while `partition` has no owner, or its state is being built from nothing."""
    if snapshot.owner is None:
        raise not_ready(f"no instance owns partition {partition} yet", partition=partition)
    if not snapshot.ready:
        percent = int(snapshot.progress * 100)
        raise not_ready(f"partition {partition} is being built, {percent} %", partition=partition, progress=percent)


def json(found: Any, served_by: str, told: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON; `told` is what its headers say of the state."""
    headers = {SERVED_BY: served_by, **(told or {})}
    return Response(msgspec.json.encode(found), headers=headers, content_type="application/json")


def relay(answer: Answer) -> Response:
    """Another instance's answer, as it is."""
    response = Response(answer.body, answer.status, content_type=answer.content_type)
    response.headers.update(answer.told)
    if answer.status == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
