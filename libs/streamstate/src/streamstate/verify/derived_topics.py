"""The output of the folds: dead letters and derived topics, each record at least once for each cause."""

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from hashlib import sha256

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from streamstate.kafka.dlq.records import SHA256_HEADER
from streamstate.kafka.dlq.topic import Cause, cause_of, is_derived, is_halting, is_receipt
from streamstate.keys import Marker
from streamstate.verify.recount import Difference

ANYTHING = -1
"""Stands for whatever a record caused, or nothing: no hash is -1."""


class Effects:
    """The effects of one partition's records in one derived topic: hashes of contents by offset, 0 for none."""

    def __init__(self) -> None:
        self.contents: array[int] = array("q")

    def add(self, offset: int, content: Hashable | None) -> None:
        """The record at `offset` causes `content`, None: nothing."""
        self.reach(offset)
        self.contents.append(0 if content is None else _digest(content))

    def leave_open(self, offset: int) -> None:
        """The record at `offset` may have caused something."""
        self.reach(offset)
        self.contents.append(ANYTHING)

    def keep(self, begin: int | None) -> None:
        """Leave the effects before `begin` open, or all: other releases published them."""
        opened = len(self.contents) if begin is None else min(begin, len(self.contents))
        self.contents[:opened] = array("q", [ANYTHING]) * opened

    def reach(self, offset: int) -> None:
        """No record before `offset` causes anything more."""
        self.contents.extend([0] * (offset - len(self.contents)))


class DerivedTopicCheck:
    """The check of one derived topic. `cause` and `content` return the cause and the content of a record.

    expected: the effects of the causes, by topic id and partition. A record with another topic id was caused by a topic
        recreated since, and is ignored.
    """

    def __init__(
        self, topic: str, cause: Callable[[Message], Cause | None], content: Callable[[Message], Hashable]
    ) -> None:
        self.topic = topic
        self.expected: dict[tuple[str, int], Effects] = {}
        self._cause = cause
        self._content = content

    def differences(self, records: Iterable[Message], replaced: Collection[Cause] = ()) -> Iterator[Difference]:
        """The differences of the topic with `records`; causes ahead of the state do not count.

        The effects of `replaced` were too large for the topic, became dead letters, and are not expected here.
        """
        seen = {place: bytearray(len(effects.contents)) for place, effects in self.expected.items()}
        for topic_id, partition, offset in replaced:
            if offset < len(seen.get((topic_id, partition), b"")):
                seen[topic_id, partition][offset] = 1
        for record in records:
            if is_derived(record) or is_receipt(record) or is_halting(record):
                continue
            if reason := self._judge(record, seen):
                yield Difference(f"{self.topic}:{record.partition()}:{record.offset()}", reason)
        for (topic_id, partition), marks in seen.items():
            for offset, content in enumerate(self.expected[topic_id, partition].contents):
                if content not in (0, ANYTHING) and not marks[offset]:
                    yield Difference(_text((topic_id, partition, offset)), f"is missing in {self.topic}")

    def _judge(self, record: Message, seen: Mapping[tuple[str, int], bytearray]) -> str | None:
        """The fault of `record`, or None after marking an expected record as `seen`."""
        cause = self._cause(record)
        if cause is None:
            return "names no cause"
        place, offset = cause[:2], cause[2]
        effects = self.expected.get(place)
        if effects is None or offset >= len(effects.contents) or effects.contents[offset] == ANYTHING:
            return None
        # Of a deleted user's record in the archive, only the marker is left.
        emptied = record.value() is None and record.timestamp()[0] == TIMESTAMP_NOT_AVAILABLE
        if not emptied and effects.contents[offset] != _digest(self._content(record)):
            return f"differs from the effect of {_text(cause)}"
        seen[place][offset] = 1
        return None


def dead_letters(topic: str) -> DerivedTopicCheck:
    """The check of the dead letters in `topic`: the value is unchanged, or identified by its digest."""
    return DerivedTopicCheck(topic, cause_of, _dead_content)


def dead_content(value: bytes | None) -> Hashable:
    """The identity of a dead letter's `value`."""
    return (None if value is None else sha256(value).hexdigest(),)


def _dead_content(letter: Message) -> Hashable:
    digest = dict(letter.headers() or []).get(SHA256_HEADER)
    return (digest.decode(errors="replace"),) if isinstance(digest, bytes) else dead_content(letter.value())


def by_marker(record: Message) -> Cause | None:
    """The cause of a record of a derived topic."""
    marker = Marker.from_headers(record.headers())
    return None if marker is None else marker[:3]


def _text(cause: Cause) -> str:
    return ":".join(map(str, cause))


def _digest(content: Hashable) -> int:
    return hash(content) or 1
