"""Dead letters replayed to the topics of their records, each once.

A transaction holds some records and, in the dead-letter topic, a receipt for each: Kafka stores both or neither.
Receipts are read after fencing the transactional id, when no earlier replay can write any more. So despite any crash, a
record is replayed once, unless a replay is requested again. Builds and recounts leave out records with a receipt: the
new record counts instead.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streamstate.app import App
from streamstate.errors import Declined
from streamstate.kafka.admin import Topics
from streamstate.kafka.dlq.records import RECEIPT_HEADER, TOPIC_ID_HEADER
from streamstate.kafka.dlq.topic import (
    DERIVED,
    NOT_COMMITTED,
    Cause,
    Choice,
    Letter,
    cause_of,
    is_receipt,
    letter_of,
    letters,
)
from streamstate.kafka.producer import Headers, distance_ms, producer, transaction
from streamstate.keys import MARKER_HEADER, Marker

BATCH = 100
"""Letters of a transaction: each may have a megabyte."""

Place = tuple[int, int]
"""Partition and offset of a letter."""


@dataclass
class ReplayPlan:
    """The letters to replay, the number of their records by topic, and the number of letters left out, by reason."""

    places: set[Place] = field(default_factory=set)
    topics: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class DeadLetterReplay:
    """Replays the letters of `app` in `choice`; with `again`, also letters that were replayed before."""

    app: App
    topics: Topics
    choice: Choice
    again: bool = False

    def plan(self) -> ReplayPlan:
        """The letters to replay now. Raises `KafkaException` when Kafka does not answer."""
        plan, first, replayed = ReplayPlan(), dict[Cause, tuple[str, Place]](), set[Cause | None]()
        ids = {topic: self.topics.origin(topic).id for topic in self.app.topics}
        for message in letters(self.topics, self.app.dead_letters):
            if is_receipt(message):
                replayed.add(cause_of(message))
            elif (letter := letter_of(message)) in self.choice:
                if obstacle := self._obstacle(letter, ids.get(letter.topic)):
                    plan.left_out[obstacle] += 1
                elif letter.cause:
                    # A letter may come twice, after a crash or a new build.
                    first.setdefault(letter.cause, (letter.topic, (letter.partition, letter.offset)))
        for cause, (topic, place) in first.items():
            if cause in replayed and not self.again:
                plan.left_out["replayed before"] += 1
            else:
                plan.topics[topic] += 1
                plan.places.add(place)
        return plan

    def run(self) -> ReplayPlan:
        """Replay, and return the replayed letters; after an error, the next run replays the rest.

        Raises `Declined` for a timestamp that a topic refuses, and `KafkaException`.
        """
        out = producer(self.topics.bootstrap, self.topics.security, f"{self.app.group}-replay")
        plan = self.plan()
        messages = letters(self.topics, self.app.dead_letters)
        chosen = (message for message in messages if (message.partition(), message.offset()) in plan.places)
        while batch := list(islice(chosen, BATCH)):
            refused: list[tuple[float, str]] = []
            try:
                with transaction(out):
                    for message in batch:
                        self._send(out, message, refused)
            except KafkaException as error:
                if refused:
                    raise Declined(max(refused)[1]) from error
                raise
        return plan

    def _send(self, out: Producer, message: Message, refused: list[tuple[float, str]]) -> None:
        letter = letter_of(message)
        assert letter.cause is not None
        topic_id, partition, offset = letter.cause

        # The record's own time, unless the time was the reason of the refusal; 0: now.
        timestamp = 0 if letter.stage == "timestamp" else letter.timestamp or 0

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None and error.code() == KafkaError.INVALID_TIMESTAMP:
                msg = (
                    f"{letter.topic} refuses the timestamp of the record {partition}:{offset}: set "
                    f"message.timestamp.before.max.ms of {letter.topic} to {2**63 - 1}, and run the command again"
                )
                refused.append((distance_ms(timestamp), msg))

        headers = letter.headers
        # A record with a marker already is the repeat of a marked record.
        if MARKER_HEADER not in dict(headers):
            headers = [*headers, (MARKER_HEADER, Marker(topic_id, partition, offset, 0).encode())]
        out.produce(
            letter.topic,
            letter.value,
            letter.key,
            partition,
            headers=headers,
            timestamp=timestamp,
            on_delivery=delivered,
        )
        place = f"{letter.partition}:{letter.offset}".encode()
        receipt: Headers = [(TOPIC_ID_HEADER, topic_id.encode()), (RECEIPT_HEADER, place)]
        out.produce(self.app.dead_letters, None, message.key(), letter.partition, headers=receipt)

    def _obstacle(self, letter: Letter, topic_id: str | None) -> str:
        """Why `letter` cannot be replayed on its topic of this id (None: a topic not read); empty if it can."""
        if letter.stage == DERIVED:
            return "of a derived record too large for its topic"
        if letter.stage == NOT_COMMITTED:
            return "of a record still to be folded"
        if letter.size is not None:
            return "only the first kilobyte of the value is kept"
        if topic_id is None:
            return "of a topic no longer read"
        if letter.topic in self.app.marked:
            return "of a derived topic, where its marker is a repeat: build the state anew"
        if letter.cause is None or letter.cause[0] != topic_id:
            return "of a recreated topic"
        return ""
