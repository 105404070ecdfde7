"""Deletions in the process of a stream: applied before a query starts, while nothing else is committed."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import structlog
from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from streamstate.app import App
from streamstate.erasure.applying import Erased, expiries, pending, steps
from streamstate.erasure.deletions import Asked, DeletionRecord, erased
from streamstate.erasure.topic import DeletionTopic
from streamstate.errors import Misconfigured
from streamstate.state.store import Claim, Origin, Snapshot, Store, TopicPartition
from streamstate.view import not_seen_since

log = structlog.get_logger()

EXPIRY_S = 600.0
"""Seconds between two searches for expired users."""

EXPIRED = 10_000
"""At most so many users of a partition expire at a time."""

PAUSE_S = 10.0
"""Minimum seconds between two restarts of a query for deletions; requests in between are applied together."""


class Erasure:
    """The deletions of one app: requested ones, and of users not seen for `expire_ms` (0: none).

    `find_due` may run in another thread than the other methods: Kafka may take long to answer.
    """

    def __init__(self, app: App, store: Store, topic: DeletionTopic | None, expire_ms: int = 0) -> None:
        self._app = app
        self._store = store
        self._topic = topic if app.user_folds else None
        self._expire_ms = expire_ms
        self._one_at_a_time = threading.Lock()
        self._looked_at = -EXPIRY_S
        self._topic_ids: Mapping[str, str] = {}
        self._applied: dict[int, int] = {}
        """By partition, the offset before which all requests are applied."""
        self._due = False
        self._applied_at = -PAUSE_S

    def apply(self, claims: Mapping[int, Claim], origins: Mapping[str, Origin]) -> Erased:
        """Apply the requests for the claimed partitions; returns the records that their query leaves out.

        Raises `Misconfigured` where a state has applied deletions of a topic that no longer exists.
        """
        with self._one_at_a_time:
            return self._apply(claims, origins)

    def _apply(self, claims: Mapping[int, Claim], origins: Mapping[str, Origin]) -> Erased:
        if not self.read(claims.values()):
            return {}
        assert self._topic
        self._topic_ids = {topic: origin.id for topic, origin in origins.items()}
        self._applied = {partition: claim.deletions or 0 for partition, claim in claims.items()}
        left_out: dict[TopicPartition, dict[bytes, int]] = {}
        for partition, claim in claims.items():
            # Nothing is committed meanwhile, so no expired user has come back.
            self._topic.write(expiries(self._app, claim, origins, self._expired(partition, claim.times, EXPIRED)))
        self._topic.catch_up()
        for partition, claim in claims.items():
            waiting = pending(self._asked(partition), claim)
            for step in steps(self._app, self._store, claim, origins, waiting):
                self._topic.write(step.receipts)
                self._store.commit(step.commit)
                self._applied[partition] = step.applied
            if waiting:
                log.info("users are deleted", service=self._app.name, partition=partition, count=len(waiting))
        self._due = self._are_new(self._topic.catch_up())
        for partition, claim in claims.items():
            for place, keys in erased(self._asked(partition), partition, self._app.rekeyed).items():
                at = claim.positions.get(place[0], 0)
                left_out[place] = {key: before for key, before in keys.items() if before > at}
        self._applied_at = time.monotonic()
        return {place: keys for place, keys in left_out.items() if keys}

    def read(self, states: Iterable[Claim | Snapshot]) -> bool:
        """Read the deletions; returns whether their topic exists, and the app has users.

        A topic that never existed is not missing. Raises `Misconfigured` as `apply`.
        """
        if self._topic is None:
            return False
        applied = max((state.deletions or 0 for state in states), default=0)
        try:
            self._topic.catch_up()
        except Misconfigured as error:
            if applied:
                raise
            log.warning("users are not deleted", service=self._app.name, reason=str(error))
            return False
        if applied > self._topic.end:
            msg = (
                f"the state has applied deletions of users up to the offset {applied}, and their topic ends at "
                f"{self._topic.end}: restore it, or users who were deleted come back when a state is built anew"
            )
            raise Misconfigured(msg)
        return True

    @property
    def has_due_deletions(self) -> bool:
        """Whether there are deletions that need a restart of the query."""
        return self._due and time.monotonic() >= self._applied_at + PAUSE_S

    def find_due(self) -> None:
        """Look for deletions to apply."""
        # Other calls report a missing topic, or a server that does not answer.
        with self._one_at_a_time, suppress(Misconfigured, KafkaException, RedisError):
            if self._topic:
                self._find(self._topic.catch_up())

    def _find(self, came: Sequence[DeletionRecord]) -> None:
        self._due |= self._are_new(came)
        if self._expire_ms and time.monotonic() >= self._looked_at + EXPIRY_S:
            self._looked_at = time.monotonic()
            snapshots = self._store.read({partition: [] for partition in self._applied})
            self._due |= any(self._expired(partition, of.times, 1) for partition, of in snapshots.items())

    def _are_new(self, came: Sequence[DeletionRecord]) -> bool:
        """Whether `came` has requests that a partition has not applied."""
        if all(each.request is not None for each in came):
            return False
        held = self._applied.items()
        return any(each.request >= applied for partition, applied in held for each in self._asked(partition))

    def _expired(self, partition: int, times: Mapping[str, int], most: int) -> list[str]:
        """At most `most` users of `partition` not seen for `expire_ms`, by the stream times of its topics."""
        before = max(times.get(source.topic, 0) for source in self._app.user_sources) - self._expire_ms
        if not self._expire_ms or before <= 0:
            return []
        [found] = self._store.read({partition: [not_seen_since(before, most)]})[partition].values
        return [user for user, _ in found]

    def _asked(self, partition: int) -> list[Asked]:
        assert self._topic
        return self._topic.deletions.asked(self._app.name, partition, self._topic_ids)
