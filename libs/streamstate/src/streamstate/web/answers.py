"""Answers to views: from the state, by the owner of the key's partition."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from flask import Response, request

from streamstate.app import App, View
from streamstate.kafka import Topics
from streamstate.keys import partition_of
from streamstate.settings import ApiSettings
from streamstate.state import Read, Snapshot, Store
from streamstate.web.client import DIRECT, SERVED_BY, Answer, Instances, Unreachable
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
        key = view.key.parse(text)
        partition = self._partition(view, key)
        snapshots = self._read({partition: view.reads(key)}, deadline)
        snapshot = snapshots[partition]
        served_by = self._served_by(partition, snapshot)
        if served_by == STANDBY and (passed_on := self._pass_on(str(snapshot.owner), deadline)):
            return relay(passed_on)
        require_ready(partition, snapshot)
        found = view.answer(key, snapshot.values)
        if found is None:
            raise unknown_key(view.name)
        return json(found, served_by, self._freshness.headers(self._positions(snapshots)))

    def many(self) -> Response:
        """The answers for many keys of one or several views: `{view: {key: answer or null}}`."""
        deadline = Deadline.of_request(self._deadline_ms)
        places: dict[int, list[tuple[View[Any], str, Any]]] = defaultdict(list)
        for view, text, key in self._asked():
            places[self._partition(view, key)].append((view, text, key))
        reads: dict[int, list[Read]] = {
            partition: [read for view, _, key in asked for read in view.reads(key)]
            for partition, asked in places.items()
        }
        answers: dict[str, dict[str, Any]] = {name: {} for name in request.args}
        snapshots = self._read(reads, deadline)
        for partition, snapshot in snapshots.items():
            self._served_by(partition, snapshot)
            require_ready(partition, snapshot)
            values = iter(snapshot.values)
            for view, text, key in places[partition]:
                answers[view.name][text] = view.answer(key, [next(values) for _ in view.reads(key)])
        return json(answers, self._address, self._freshness.headers(self._positions(snapshots)))

    def _read(self, reads: Mapping[int, Sequence[Read]], deadline: Deadline) -> Mapping[int, Snapshot]:
        return self._freshness.demanded(lambda: self._store.read(reads), self._positions, deadline)

    def _positions(self, snapshots: Mapping[int, Snapshot]) -> Positions:
        return {
            (topic, partition): snapshot.positions.get(topic, 0)
            for partition, snapshot in snapshots.items()
            for topic in self._app.topics
            if partition < self._topics.partitions(topic)
        }

    def _asked(self) -> list[tuple[View[Any], str, Any]]:
        views = {view.name: view for view in self._app.views}
        asked = asked_for_many(views)
        if any(name not in views for name, _ in asked):
            raise bad_query(views)
        return [(views[name], text, views[name].key.parse(text)) for name, text in asked]

    def _partition(self, view: View[Any], key: Any) -> int:
        return partition_of(view.key.encode(key), self._topics.partitions(view.topic))

    def _served_by(self, partition: int, snapshot: Snapshot) -> str:
        """Who answers for `snapshot`. Raises a 421 `Problem` when the caller wrongly believes to ask the owner."""
        if snapshot.owner is None or snapshot.owner == self._address:
            return self._address
        if DIRECT in request.headers:
            raise not_the_owner(partition, snapshot.owner)
        return STANDBY

    def _pass_on(self, owner: str, deadline: Deadline) -> Answer | None:
        """The owner's answer to this request, None when it cannot be reached."""
        self._telemetry.forwarded.inc()
        try:
            return self._instances.get(owner, quote(request.path), deadline, list(request.args.items(multi=True)))
        except Unreachable:
            return None


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
    response = Response(msgspec.json.encode(found), content_type="application/json")
    response.headers.update({SERVED_BY: served_by, **(told or {})})
    return response


def relay(answer: Answer) -> Response:
    """Another instance's answer, as it is."""
    response = Response(answer.body, answer.status, content_type=answer.content_type)
    response.headers.update(answer.told)
    if answer.status == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
