"""Answers to views: from the state, by the owner of the key's partition."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import msgspec

from streamstate.app import App
from streamstate.processing.placement import misplaced
from streamstate.state.store import Snapshot
from streamstate.texts import plain
from streamstate.view import Further, Question, View
from streamstate.web.client.instances import DIRECT, STAND_IN, Instances, InstanceUnreachable, same_service
from streamstate.web.consistency import Demands
from streamstate.web.http import parameters
from streamstate.web.http.problems import (
    MOST_KEYS,
    MOST_KEYS_POSTED,
    bad_body,
    bad_query,
    not_ready,
    not_the_owner,
    unknown_key,
)
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.telemetry import Telemetry
from streamstate.web.state import AppState

STANDBY = "standby"
TURN_S = 0.002
"""Seconds of answering many keys after which other requests, and the deadline of this one, get their turn."""

_Keys = Annotated[list[int | str], msgspec.Meta(max_length=MOST_KEYS_POSTED)]
_decode_lists = msgspec.json.Decoder(Annotated[dict[str, _Keys], msgspec.Meta(max_length=MOST_KEYS)]).decode


@dataclass(frozen=True)
class Answers:
    """Answers for one instance.

    Every answer is read atomically with the owner of its partition. A request for another instance's key is forwarded
    once; without an answer of the owner, this instance answers as `standby` from the state, with all commits of any
    instance.
    """

    app: App
    address: str
    state: AppState
    demands: Demands
    instances: Instances
    telemetry: Telemetry

    async def view(self, view: View[Any], request: Request, key: str = "") -> Response:
        """The answer of `view` for the key named `key`; any instance answers a view over all partitions."""
        question = view.ask(key, None if view.query is None else parameters.parse(view.query, request.query))
        partitions = question.partitions(await self.state.counts())
        read = partial(self.state.read, dict.fromkeys(partitions, question.reads))
        snapshots = await self.demands.read_until_met(read, self.state.positions_of, request.deadline)
        served_by = self.address
        for partition, snapshot in snapshots.items():
            owned = not view.over_all_partitions
            if owned and (served_by := self._served_by(partition, snapshot, request)) == STANDBY:
                if passed_on := await self._pass_on(str(snapshot.owner), request):
                    return passed_on
                self.telemetry.stood_in.inc()
            self.state.require_ready(partition, snapshot, self.app.topics_of(view))
        answer = question.answer_of(snapshots.values())
        while isinstance(answer, Further):
            further = await self.state.read(answer.reads)
            for partition, snapshot in further.items():
                if not snapshot.continues(snapshots[partition]):
                    detail = f"the state of partition {partition} was claimed anew or replaced during the answer"
                    raise not_ready(detail, partition=partition)
            answer = answer.then({partition: snapshot.values for partition, snapshot in further.items()})
        if answer is None:
            advised = misplaced(self.app, [view.topic or ""], snapshots.values())
            raise unknown_key(view.name, self.state.warning(snapshots), "; ".join(advised))
        return json(answer, served_by, self.state.headers_of(snapshots))

    async def many(self, views: Mapping[str, View[Any]], request: Request) -> Response:
        """The answers for many keys of one or several of `views`, by their names: `{view: {key: answer or null}}`."""
        asked = asked_for_many(request, views)
        if any(name not in views for name, _ in asked):
            raise bad_query(views)
        counts = await self.state.counts()
        questions: dict[int, list[tuple[str, Question]]] = defaultdict(list)
        for name, text in asked:
            question = views[name].ask(text)
            (partition,) = question.partitions(counts)
            questions[partition].append((text, question))
        reads = {
            partition: [read for _, question in here for read in question.reads]
            for partition, here in questions.items()
        }
        answers: dict[str, dict[str, Any]] = {name: {} for name, _ in asked}
        read = partial(self.state.read, reads)
        snapshots = await self.demands.read_until_met(read, self.state.positions_of, request.deadline)
        turned = time.monotonic()
        for partition, snapshot in snapshots.items():
            self._served_by(partition, snapshot, request)
            topics = {topic for _, question in questions[partition] for topic in self.app.topics_of(question.view)}
            self.state.require_ready(partition, snapshot, topics)
            values = iter(snapshot.values)
            for text, question in questions[partition]:
                answers[question.view.name][text] = question.answer([next(values) for _ in question.reads])
                if time.monotonic() - turned > TURN_S:
                    await asyncio.sleep(0)
                    turned = time.monotonic()
        # The gateway tells the partitions apart.
        exact = DIRECT.lower() in request.headers
        return json(answers, self.address, self.state.headers_of(snapshots, exact=exact))

    def _served_by(self, partition: int, snapshot: Snapshot, request: Request) -> str:
        """The value of `Served-By` for `snapshot`. Raises a 421 `Problem` when the caller wrongly expects the owner."""
        if snapshot.owner is None or snapshot.owner == self.address:
            return self.address
        if DIRECT.lower() in request.headers:
            raise not_the_owner(snapshot.owner, partition)
        return STANDBY

    async def _pass_on(self, owner: str, request: Request) -> Response | None:
        """The owner's answer to `request`; None without one."""
        if STAND_IN.lower() in request.headers or not same_service(self.address, owner):
            return None
        self.telemetry.forwarded.inc()
        try:
            return await self.instances.get(owner, request.path, request.deadline.share(0.5), request.query)
        except InstanceUnreachable:
            return None


def asked_for_many(request: Request, views: Iterable[str], besides: str = "") -> Sequence[tuple[str, str]]:
    """(View name, key text) of `request`, each once; raises a 400 `Problem` that names `views` for none, or too many.

    besides: the name of a parameter that is no key.
    """
    if request.body is None:
        asked, most = request.query, MOST_KEYS
    else:
        asked, most = posted(request.body), MOST_KEYS_POSTED
    if not 0 < sum(name != besides for name, _ in asked) <= most:
        raise bad_query(views)
    return [*dict.fromkeys(asked)]


def posted(body: bytes) -> list[tuple[str, str]]:
    """(Name, text) of the JSON object `{name: [text or number, …], …}`; raises a 400 `Problem` for another body."""
    try:
        lists = _decode_lists(body)
    except UnicodeDecodeError as error:
        not_text = "the body is not UTF-8"
        raise bad_body(not_text) from error
    except msgspec.DecodeError as error:
        raise bad_body(plain(str(error).partition(" - at")[0])) from error
    return [(name, str(text)) for name, texts in lists.items() for text in texts]
