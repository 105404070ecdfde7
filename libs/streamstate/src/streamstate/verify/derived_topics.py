"""What the folds send out: dead letters and derived topics, each record at least once for each cause."""

import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator
from hashlib import sha256

from confluent_kafka import Message

from streamstate.app import dead_letter_topic
from streamstate.kafka.dead_letters import SHA256_HEADER, SOURCE_HEADER
from streamstate.state.store import TopicPartition
from streamstate.verify.recount import Difference

_CAUSE = re.compile("(.+):([0-9]+):([0-9]+)")


class Effects:
    """What the records of one place have to cause in one derived topic: hashes of contents by offset, 0 for nothing."""

    def __init__(self) -> None:
        self.contents: array[int] = array("q")

    def add(self, offset: int, content: Hashable | None) -> None:
        """The record at `offset` causes `content`, None: nothing."""
        self.reach(offset)
        self.contents.append(0 if content is None else _digest(content))

    def reach(self, offset: int) -> None:
        """No record before `offset` causes anything more."""
        self.contents.extend([0] * (offset - len(self.contents)))


class Derived:
    """One topic that the folds write to. `cause` and `content` read the cause and what it caused from its records."""

    def __init__(self, topic: str, cause: Callable[[Message], str], content: Callable[[Message], Hashable]) -> None:
        self.topic = topic
        self.expected: dict[TopicPartition, Effects] = {}
        self._cause = cause
        self._content = content

    def differences(self, records: Iterable[Message]) -> Iterator[Difference]:
        """What is wrong with the topic, which holds `records`; causes that the state has yet to reach do not count."""
        seen = {place: bytearray(len(effects.contents)) for place, effects in self.expected.items()}
        for record in records:
            cause = self._cause(record)
            named = _CAUSE.fullmatch(cause)
            place = (named[1], int(named[2])) if named else ("", 0)
            if named is None or place not in seen:
                yield Difference(self._at(record), f"names {cause or 'nothing'} as its cause, which is not folded")
            elif (offset := int(named[3])) < len(seen[place]):
                if self.expected[place].contents[offset] == _digest(self._content(record)):
                    seen[place][offset] = 1
                else:
                    yield Difference(self._at(record), f"is not what {cause} causes")
        for (topic, partition), found in seen.items():
            for offset, content in enumerate(self.expected[topic, partition].contents):
                if content and not found[offset]:
                    yield Difference(f"{topic}:{partition}:{offset}", f"is missing in {self.topic}")

    def _at(self, record: Message) -> str:
        return f"{self.topic}:{record.partition()}:{record.offset()}"


def dead_letters(service: str) -> Derived:
    """The dead letters of `service`: the key names the cause, and the value is as it was, or what tells it apart."""
    topic = dead_letter_topic(service)
    return Derived(topic, lambda letter: (letter.key() or b"").decode(errors="replace"), _dead_content)


def dead_content(value: bytes | None) -> Hashable:
    """What a dead letter with `value` is recognized by."""
    return (None if value is None else sha256(value).hexdigest(),)


def _dead_content(letter: Message) -> Hashable:
    found = dict(letter.headers() or []).get(SHA256_HEADER)
    return (found.decode(errors="replace"),) if isinstance(found, bytes) else dead_content(letter.value())


def by_header(record: Message) -> str:
    """The cause of a record of a derived topic."""
    found = dict(record.headers() or []).get(SOURCE_HEADER)
    return found.decode(errors="replace") if isinstance(found, bytes) else ""


def _digest(content: Hashable) -> int:
    return hash(content) or 1
