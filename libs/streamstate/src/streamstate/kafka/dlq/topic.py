"""Dead letters read from their topic: record, reason, and replays."""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

from confluent_kafka import OFFSET_BEGINNING, Message

from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.dlq.records import (
    EXCEPTION_HEADER,
    HALTED_HEADER,
    KEY_HEADER,
    MESSAGE_HEADER,
    RECEIPT_HEADER,
    SERVICE_HEADER,
    SIZE_HEADER,
    SOURCE_TOPIC_HEADER,
    STAGE_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    TOPIC_ID_HEADER,
    listed,
)
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.producer import Headers
from streamstate.kafka.reading import read_to_end
from streamstate.keys import Marker
from streamstate.processing.decode import Refusal, Stage
from streamstate.state.store import Claim, Origin, TopicPartition

Cause = tuple[str, int, int]
"""Topic id, partition and offset of a record."""

_NUMBER = re.compile(rb"-?[0-9]{1,19}")

DERIVED = "derived"
"""Pseudo-stage of a letter for a record that was too large for a derived topic."""

NOT_COMMITTED = "not committed"
"""Pseudo-stage of a letter that explains why a stream halted."""


@dataclass(frozen=True)
class Letter:
    """A dead letter, by its own `partition` and `offset`, and the time at which it was `written` (milliseconds).

    topic, cause: the topic and identity of its record; with the stage `DERIVED`, the topic that the record was for, and
        the record's cause. The cause is None in letters without it.
    key, headers, timestamp (milliseconds): the record's own; the timestamp is None in letters without it.
    size: bytes of the record's value when `value` is only the first kilobyte, else None.
    """

    partition: int
    offset: int
    written: int
    topic: str
    cause: Cause | None
    stage: str
    exception: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    size: int | None

    @property
    def identity(self) -> tuple[str, Cause | None, bool]:
        """Equal for repeats of a letter."""
        return self.topic, self.cause, self.stage == NOT_COMMITTED

    @property
    def reason(self) -> str:
        """Stage, exception and message."""
        return f"{self.stage}: {self.exception}: {self.message}"


@dataclass(frozen=True)
class Choice:
    """Letters by their own place, or by a text in their reason; all by default."""

    partition: int | None = None
    offset: int | None = None
    reason: str = ""

    def __contains__(self, letter: Letter) -> bool:
        here = self.partition in (None, letter.partition) and self.offset in (None, letter.offset)
        return here and self.reason.lower() in letter.reason.lower()


@dataclass(frozen=True)
class Overview:
    """Letters by stage and exception, by topic and partition of their records, how many were replayed, the latest."""

    by_reason: Counter[str]
    by_place: Counter[TopicPartition]
    replayed: int
    latest: Sequence[Letter]


def overview(messages: Iterable[Message], choice: Choice, most: int) -> Overview:
    """A summary of `messages` from a dead-letter topic; repeated letters count once."""
    by_reason, by_place = Counter[str](), Counter[TopicPartition]()
    seen, replayed = set[tuple[str, Cause | None, bool]](), set[Cause | None]()

    def chosen() -> Iterator[Letter]:
        for message in messages:
            if is_receipt(message):
                replayed.add(cause_of(message))
            elif (letter := letter_of(message)) in choice and letter.identity not in seen:
                seen.add(letter.identity)
                by_reason[f"{letter.stage}: {letter.exception}"] += 1
                by_place[letter.topic, letter.cause[1] if letter.cause else -1] += 1
                yield letter

    # For `most` = 0, nlargest would not consume the letters, so take the latest one and cut it off.
    latest = heapq.nlargest(max(1, most), chosen(), key=lambda letter: letter.written)[:most]
    return Overview(by_reason, by_place, sum(cause in replayed for _, cause, _ in seen), latest)


def letter_of(message: Message) -> Letter:
    """The letter in a record of a dead-letter topic."""
    headers = listed(message.headers())
    # The record's headers come first, and have the same names when the record was a dead letter itself.
    own = max((index for index, (name, _) in enumerate(headers) if name == EXCEPTION_HEADER), default=0)
    fields = {name: value for name, value in headers[own:] if isinstance(value, bytes)}

    def text(name: str) -> str:
        return fields.get(name, b"").decode(errors="replace")

    derived = is_derived(message)
    stage = DERIVED if derived else NOT_COMMITTED if is_halting(message) else text(STAGE_HEADER)
    marker = Marker.from_headers(message.headers()) if derived else None
    return Letter(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        text(TOPIC_HEADER) if derived else text(SOURCE_TOPIC_HEADER),
        marker[:3] if marker else cause_of(message),
        stage,
        text(EXCEPTION_HEADER),
        text(MESSAGE_HEADER),
        fields.get(KEY_HEADER),
        message.value(),
        headers[:own],
        _number(fields.get(TIMESTAMP_HEADER)),
        _number(fields.get(SIZE_HEADER)),
    )


def _number(header: bytes | None) -> int | None:
    return int(header) if header and _NUMBER.fullmatch(header) else None


def is_receipt(message: Message) -> bool:
    """Whether a record of a dead-letter topic is a receipt of a replay instead of a letter."""
    return _last_header(message) == RECEIPT_HEADER


def is_derived(message: Message) -> bool:
    """Whether a letter is for a record that was too large for a derived topic."""
    return _last_header(message) == TOPIC_HEADER


def is_halting(message: Message) -> bool:
    """Whether a letter says why a stream halted: nothing became of its record yet."""
    return _last_header(message) == HALTED_HEADER


def _last_header(message: Message) -> str:
    # Names before the last may be headers of the letter's record.
    return next((name for name, _ in reversed(listed(message.headers()))), "")


def cause_of(message: Message) -> Cause | None:
    """The cause of a letter or a receipt, None in letters without it."""
    topic_id = dict(message.headers() or []).get(TOPIC_ID_HEADER)
    match (message.key() or b"").rsplit(b":", 2):
        case [_, partition, offset] if isinstance(topic_id, bytes) and partition.isdigit() and offset.isdigit():
            return topic_id.decode(errors="replace"), int(partition), int(offset)
    return None


def stage_of(letter: Message) -> Stage | None:
    """The stage that refused the record of `letter`, None for a halted stream's letter or a letter without a stage."""
    if is_halting(letter):
        return None
    stages: dict[str | bytes | None, Stage] = {stage.encode(): stage for stage in get_args(Stage)}
    return stages.get(dict(letter.headers() or []).get(STAGE_HEADER))


def letters(topics: Topics, dead_letters: str) -> Iterator[Message]:
    """The records of the topic `dead_letters`; none where there is no such topic."""
    try:
        partitions = topics.partitions(dead_letters)
    except Misconfigured:
        return
    starts = {(dead_letters, partition): OFFSET_BEGINNING for partition in range(partitions)}
    yield from read_to_end(topics.bootstrap, starts, topics.security)


class Refusals:
    """The records left out of decoding: refused by the clock or an operator, or replayed.

    A build cannot decide so from the records: the clock has gone on, and records do not tell their later fate. The
    dead-letter topic does. It is read once completely, and later only for additions.

    service: the deployment whose refusals by a fold count, too; empty: a fold decides anew.
    """

    def __init__(self, history: TopicHistory, dead_letters: str, service: str = "") -> None:
        self._service = service
        self._history = history
        self._dead_letters = dead_letters
        self._topic_id = ""
        self._starts: dict[TopicPartition, int] = {}
        self._by_cause: dict[Cause, Refusal] = {}

    def read(
        self, origins: Mapping[str, Origin], claims: Mapping[int, Claim]
    ) -> dict[TopicPartition, dict[int, Refusal]]:
        """The refused records ahead of `claims`, in topics with these `origins`, by their offsets.

        Records skipped by an operator are in the claims alone, until their letter is written. Raises `KafkaException`
        when Kafka does not answer.
        """
        with suppress(Misconfigured):
            self._catch_up(self._history.topics.origin(self._dead_letters))
        names = {origin.id: topic for topic, origin in origins.items()}
        refused: defaultdict[TopicPartition, dict[int, Refusal]] = defaultdict(dict)
        for (topic_id, partition, offset), refusal in self._by_cause.items():
            topic, claim = names.get(topic_id), claims.get(partition)
            if topic and claim and offset >= claim.positions.get(topic, 0):
                refused[topic, partition][offset] = refusal
        for partition, claim in claims.items():
            for (topic, offset), reason in claim.skips.items():
                refused[topic, partition][offset] = Refusal("skip", reason)
        return refused

    def _catch_up(self, origin: Origin) -> None:
        if origin.id != self._topic_id:
            self._topic_id, self._starts, self._by_cause = origin.id, {}, {}
        places = [(self._dead_letters, partition) for partition in range(origin.partitions)]
        ends = self._history.topics.ends(places)
        added = {place: end for place, end in ends.items() if end > self._starts.get(place, 0)}
        begins = self._history.begins(added)
        for place, end in added.items():
            with self._history.log(place, max(begins[place], self._starts.get(place, 0))) as log:
                for message in log.up_to(end):
                    if (refusal := self._refusal(message)) and (cause := cause_of(message)):
                        self._by_cause[cause] = refusal
        self._starts |= added

    def _refusal(self, message: Message) -> Refusal | None:
        """The refusal in a letter or a receipt; None when the record itself shows the fault."""
        if is_receipt(message):
            return Refusal("skip", "replayed: another record counts in its place")
        stage = stage_of(message)
        by_fold = stage == "fold" and self._service and _service_of(message) == self._service
        remembered = by_fold or stage in ("timestamp", "schema", "skip")
        return Refusal(stage, letter_of(message).message) if stage and remembered else None


def _service_of(letter: Message) -> str:
    name = dict(letter.headers() or []).get(SERVICE_HEADER)
    return name.decode(errors="replace") if isinstance(name, bytes) else ""
