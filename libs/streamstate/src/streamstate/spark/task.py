"""What a Spark task does with its rows: partition by partition, fold and commit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame

from streamstate import bootstrap
from streamstate.app import App
from streamstate.erasure.stream import Erased
from streamstate.errors import TooManyDeadLetters
from streamstate.kafka.admin import Topics
from streamstate.kafka.dead_letters import dead_letters, derived, halting, original_headers, shortened
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.kafka.security import OPEN, Security
from streamstate.processing.advance import CHANGES_A_RECORD, Advance, Folded
from streamstate.processing.decode import DeadLetter, Refusal
from streamstate.processing.limits import CommitLimit, DeadLetterLimit, Limits, TimestampLimit
from streamstate.processing.topic_identity import require_same_topics
from streamstate.settings import StreamSettings
from streamstate.spark.rows import COLUMNS, MARKER, by_partition, gather, markers, whole_partitions
from streamstate.state.redis_login import NO_LOGIN, Login
from streamstate.state.store import Claim, Origin, TopicPartition

BUILDING_CHANGES, READY_CHANGES = 240_000, 1_500
"""The most changes of a commit to what is built and to what is read: Redis answers nobody else meanwhile, for half a
second and 20 ms at most."""

_store = lru_cache(bootstrap.store)
_topics = lru_cache(bootstrap.topics)
_producer = lru_cache(producer)


@lru_cache
def _dead_letter_limit(_app: str, most: int, share: float) -> DeadLetterLimit:
    return DeadLetterLimit(most, share)


@dataclass(frozen=True)
class Job:
    """One query's work, sent to the workers: the app, what it may write (claims), and where the servers are.

    `origins` are those of the app's topics, `task_records` and `commit_records` the most records of a task that has all
    of its batch and of one commit; `dead_letters` and `dead_letter_share` are as of a `DeadLetterLimit`, `erased`
    and `seen` as of the `Limits`.
    """

    app: App
    claims: dict[int, Claim]
    origins: dict[str, Origin]
    timestamps: TimestampLimit
    task_records: int
    commit_records: int
    dead_letters: int
    dead_letter_share: float
    erased: Erased
    seen: bool
    kafka: str
    redis: str
    redis_timeout_s: float
    redis_login: Login = NO_LOGIN
    security: Security = OPEN

    @classmethod
    def for_claims(
        cls,
        app: App,
        claims: dict[int, Claim],
        origins: dict[str, Origin],
        topics: Topics,
        refused: Mapping[TopicPartition, Mapping[int, Refusal]],
        erased: Erased,
        settings: StreamSettings,
    ) -> Self:
        """As `settings` and the configurations of `topics` say, and what proves us to Kafka now."""
        tolerances = {topic: settings.tolerance_ms(fold.grace_ms) for fold in app.folds for topic in fold.topics}
        return cls(
            app,
            claims,
            origins,
            TimestampLimit(topics.unbounded(tolerances), refused),
            settings.batch_records,
            settings.commit_records,
            settings.dead_letters,
            settings.dead_letter_share,
            erased,
            settings.users_expire_ms > 0,
            settings.kafka,
            settings.redis,
            settings.redis_timeout_s,
            settings.redis_login,
            topics.security,
        )

    @property
    def counts(self) -> dict[str, int]:
        """The partition counts by topic."""
        return {topic: origin.partitions for topic, origin in self.origins.items()}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commit every row of `batches`.

        Raises `Fenced` when a partition is not this query's any more, and `BatchTooLarge`, with nothing committed.
        """
        advance = self.advance()
        one_task = self.app.one_task
        for batch in gather(batches, self.task_records) if one_task else whole_partitions(batches, self.commit_records):
            try:
                advance(by_partition(batch), markers(batch))
            except TooManyDeadLetters as error:
                self._send(halting(self._halting(error.letters)))
                raise
        return iter(())

    def advance(self) -> Advance:
        """What brings the partitions forward, over this process' own connections."""
        store = _store(self.redis, self.redis_timeout_s, self.app.name, self.redis_login)
        dead_letters = _dead_letter_limit(self.app.name, self.dead_letters, self.dead_letter_share)
        building = CommitLimit(self.commit_records, min(int(CHANGES_A_RECORD * self.commit_records), BUILDING_CHANGES))
        ready = CommitLimit(self.commit_records, READY_CHANGES)
        limits = Limits(building, ready, dead_letters, self.timestamps, self.erased, self.seen)
        return Advance(self.app, store, self.claims, self.counts, self._publish, limits)

    def _publish(self, folded: Sequence[Folded]) -> None:
        """Raises `Misconfigured` when a topic was made anew, or widened: the records may be of the new one."""
        require_same_topics([self.origins], _topics(self.kafka, self.security).describe(self.origins))
        self._send(record for part in folded for record in self._outgoing(part))

    def _send(self, records: Iterable[Outgoing]) -> None:
        if outgoing := [*records]:
            send_all(_producer(self.kafka, self.security), outgoing, instead=partial(shortened, self.app))

    def _outgoing(self, folded: Folded) -> Iterator[Outgoing]:
        ids = {source.own_name: self.origins[source.topic].id for source in self.app.sources}
        yield from derived(self.app, folded.emits, folded.partition, ids)
        yield from self._letters(folded.partition, folded.dead)

    def _halting(self, letters: Sequence[tuple[int, DeadLetter]]) -> Iterator[Outgoing]:
        for partition in dict.fromkeys(partition for partition, _ in letters):
            dead = [letter for of_partition, letter in letters if of_partition == partition]
            yield from self._letters(partition, sorted(dead, key=attrgetter("offset")))

    def _letters(self, partition: int, letters: Sequence[DeadLetter]) -> Iterator[Outgoing]:
        for own_name in dict.fromkeys(letter.topic for letter in letters):
            dead = [letter for letter in letters if letter.topic == own_name]
            topic = self.app.source(own_name).topic
            place = (topic, partition)
            headers = original_headers(self.kafka, place, [letter.offset for letter in dead], self.security)
            yield from dead_letters(self.app, dead, place, self.origins[topic].id, headers)


def in_tasks(rows: DataFrame, job: Job, tasks: int) -> DataFrame:
    """`rows` of Spark's Kafka source, committed by `job` in at most so many `tasks`: nothing is left of them."""
    columns = (*COLUMNS, MARKER) if job.app.marked else COLUMNS
    return rows.selectExpr(*columns).coalesce(1 if job.app.one_task else tasks).mapInArrow(job, "nothing long")
