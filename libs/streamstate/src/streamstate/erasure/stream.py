"""Deletions in the process of a stream: applied when a query begins, which is when nothing else is committed."""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import structlog

from streamstate.app import App
from streamstate.erasure.applying import DELETIONS, pending, steps
from streamstate.erasure.deletions import Asked, Deletion, erased
from streamstate.erasure.topic import DeletionTopic
from streamstate.errors import Misconfigured
from streamstate.state.store import Claim, Origin, Store, TopicPartition

log = structlog.get_logger()

PAUSE_S = 10.0
"""Least seconds between two starts of a query for deletions: those that come meanwhile are applied together."""

Erased = Mapping[TopicPartition, Mapping[bytes, int]]


class Erasure:
    """The deletions of one app."""

    def __init__(self, app: App, store: Store, topic: DeletionTopic | None) -> None:
        self._app = app
        self._store = store
        self._topic = topic if any(fold.users for fold in app.folds) else None
        self._due = False
        self._applied_at = -PAUSE_S

    def apply(self, claims: Mapping[int, Claim], origins: Mapping[str, Origin]) -> Erased:
        """Apply what is asked of the partitions that were just claimed; returns what their query leaves out.

        Raises `Misconfigured` where a state has applied deletions of a topic that is not there any more.
        """
        if self._topic is None or not self._read(claims):
            return {}
        ids = {topic: origin.id for topic, origin in origins.items()}
        left_out: dict[TopicPartition, dict[bytes, int]] = {}
        for partition, claim in claims.items():
            waiting = pending(self._asked(partition, ids), claim)
            for step in steps(self._app, self._store, claim, origins, waiting):
                self._topic.write(step.receipts)
                self._store.commit(step.commit)
            if waiting:
                log.info("users are deleted", service=self._app.name, partition=partition, count=len(waiting))
        self._topic.catch_up()
        for partition, claim in claims.items():
            for place, keys in erased(self._asked(partition, ids), partition).items():
                at = claim.positions.get(place[0], 0)
                left_out[place] = {key: before for key, before in keys.items() if before > at}
        self._due, self._applied_at = False, time.monotonic()
        return {place: keys for place, keys in left_out.items() if keys}

    def due(self, partitions: Collection[int]) -> bool:
        """Whether deletions were asked for that a query has to begin again for."""
        if self._topic is None:
            return False
        came: Sequence[Deletion] = ()
        with suppress(Misconfigured):
            came = self._topic.catch_up()
        self._due |= any(each.request is None and each.partition in partitions for each in came)
        return self._due and time.monotonic() >= self._applied_at + PAUSE_S

    def _read(self, claims: Mapping[int, Claim]) -> bool:
        """Whether there are deletions: a topic that was never there is none that is missing."""
        assert self._topic
        applied = max(claim.positions.get(DELETIONS, 0) for claim in claims.values())
        try:
            self._topic.catch_up()
        except Misconfigured:
            if applied:
                raise
            return False
        if applied > self._topic.end:
            msg = (
                f"the state has applied deletions of users up to the offset {applied}, and their topic ends at "
                f"{self._topic.end}: restore it, or users who were deleted come back when a state is built anew"
            )
            raise Misconfigured(msg)
        return True

    def _asked(self, partition: int, topic_ids: Mapping[str, str]) -> list[Asked]:
        assert self._topic
        return self._topic.deletions.asked(self._app.name, partition, topic_ids)
