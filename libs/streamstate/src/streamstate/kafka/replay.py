"""Dead letters put again on the topics that their records are from, each once.

A transaction holds some records and, in the dead-letter topic, a receipt for each: Kafka has both or neither. Receipts
are read behind the fence of the transactional id, when no earlier replay can write any more. So whatever is killed, and
whenever, a record is replayed once, unless it is asked for again. Builds and recounts leave out what has a receipt: the
new record counts in its place.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from confluent_kafka import Message, Producer

from streamstate.app import App
from streamstate.kafka.admin import Topics
from streamstate.kafka.dead_letters import RECEIPT_HEADER, TOPIC_ID_HEADER
from streamstate.kafka.letters import (
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
from streamstate.kafka.producer import Headers, producer, transaction
from streamstate.kafka.security import OPEN, Security
from streamstate.marker import HEADER, Marker

BATCH = 100
"""Letters of a transaction: each may have a megabyte."""

Place = tuple[int, int]
"""Partition and offset of a letter."""


@dataclass
class ReplayPlan:
    """The letters to replay, how many records each topic gets by that, and how many letters are left out, and why."""

    places: set[Place] = field(default_factory=set)
    topics: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Replay:
    """Replays the letters of `app` in `choice`; with `again`, also what was replayed before."""

    app: App
    topics: Topics
    bootstrap: str
    choice: Choice
    again: bool = False
    security: Security = OPEN

    def plan(self) -> ReplayPlan:
        """What there is to do now. Raises `KafkaException` when Kafka does not answer."""
        plan, first, replayed = ReplayPlan(), dict[Cause, tuple[str, Place]](), set[Cause | None]()
        ids = {topic: self.topics.origin(topic).id for topic in self.app.topics}
        for message in letters(self.bootstrap, self.topics, self.app.dead_letters, self.security):
            if is_receipt(message):
                replayed.add(cause_of(message))
            elif (letter := letter_of(message)) in self.choice:
                if obstacle := _obstacle(letter, ids.get(letter.topic)):
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
        """Replay, and return what was replayed. Raises `KafkaException`; the next run does what is left then."""
        out = producer(self.bootstrap, self.security, f"{self.app.group}-replay")
        plan = self.plan()
        messages = letters(self.bootstrap, self.topics, self.app.dead_letters, self.security)
        chosen = (message for message in messages if (message.partition(), message.offset()) in plan.places)
        while batch := list(islice(chosen, BATCH)):
            with transaction(out):
                for message in batch:
                    self._send(out, message)
        return plan

    def _send(self, out: Producer, message: Message) -> None:
        letter = letter_of(message)
        assert letter.cause is not None
        topic_id, partition, offset = letter.cause
        headers = letter.headers
        # A record that has a marker is the repeat of what that names already.
        if HEADER not in dict(headers):
            headers = [*headers, (HEADER, Marker(topic_id, partition, offset, 0).encode())]
        # Its own time, unless it was refused for that; 0: now.
        timestamp = 0 if letter.stage == "timestamp" else letter.timestamp or 0
        out.produce(letter.topic, letter.value, letter.key, partition, headers=headers, timestamp=timestamp)
        place = f"{letter.partition}:{letter.offset}".encode()
        receipt: Headers = [(TOPIC_ID_HEADER, topic_id.encode()), (RECEIPT_HEADER, place)]
        out.produce(self.app.dead_letters, None, message.key(), letter.partition, headers=receipt)


def _obstacle(letter: Letter, topic_id: str | None) -> str:
    """Why `letter` cannot be replayed on its topic, which has this id (None: the app does not read it); else empty."""
    if letter.stage == DERIVED:
        return "of a derived record that its topic does not take"
    if letter.stage == NOT_COMMITTED:
        return "of a record that is still to be folded"
    if letter.size is not None:
        return "only the first kilobyte of the value is kept"
    if topic_id is None:
        return "of a topic that is not read any more"
    if letter.cause is None or letter.cause[0] != topic_id:
        return "of a topic that was deleted and made anew"
    return ""
