"""The contract of a recount: the state of one partition, counted again."""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from streamstate.app import dead_letter_topic
from streamstate.keys import KeyCodec

Entries = list[tuple[int, dict[bytes, bytes]]]

Stored = bytes | dict[bytes, bytes] | dict[bytes, float] | Entries
"""A value in Redis: string, hash, sorted set with its scores, stream with the numbers of its entries."""

_SHOWN = 200
"""Characters of each side of a difference."""


class Recount(ABC):
    """One partition of a service, created anew for each check.

    counts: the counters of the folds, apart from dead letters.
    unsure: names of counters that depend on the division of the records into batches.

    The check calls `add` for every record of the service's topics in offset order, topic by topic, up to the state's
    positions, then `expected_keys` and `wrong`; then `add` again, after the state has moved on.
    """

    counts: Mapping[str, int] = {}
    unsure: Collection[str] = ()

    @abstractmethod
    def add(self, message: Message, stream_time: int) -> bool:
        """Count a record; returns False for an unusable record, which must be in the dead-letter topic.

        `stream_time` is the greatest timestamp (milliseconds) of its topic's usable records up to and including the
        record, apart from records refused by a fold, or from the future.
        """

    def add_erased(self, message: Message, stream_time: int) -> None:  # noqa: B027, most recounts do nothing
        """Count a usable record of an erased user, as far as it counts without the user."""

    @abstractmethod
    def expected_keys(self) -> Iterable[str]:
        """The keys required by the records, without the partition's tag."""

    @abstractmethod
    def wrong(self, key: str, stored: Stored | None) -> str | None:
        """The difference of `stored`, the value of `key` (None: a missing key); None for an equal value."""


@dataclass(frozen=True)
class Published:
    """A derived topic: each record with a content must be present at least once, and no other.

    caused: the content that a record of the service's topics causes in `topic`, None for none.
    own: whether the service itself reads the topic, in its own form.
    content: the content of a record of `topic`. Both leave out parts that depend on look-ups.
    """

    topic: str
    caused: Callable[[Message], Hashable | None]
    content: Callable[[Message], Hashable]
    own: bool = False


@dataclass(frozen=True)
class Recounted:
    """The recount of a service's state: `RECOUNT` in `services/<x>/recount.py`, or else of `replay.recounted`.

    topics: the topics of the service's folds.
    make: a new, empty recount.
    dead_letters: the dead-letter topic.
    rekeyed: the topics that the service sends again by user, and the codec of users.
    as_declared: a record of the deployment → the record under the service's topic name and in the service's form, None
        when it cannot be read.
    """

    service: str
    topics: tuple[str, ...]
    make: Callable[[], Recount]
    published: Published | None = None
    dead_letters: str = ""
    rekeyed: Mapping[str, KeyCodec[Any]] = field(default_factory=dict)
    as_declared: Callable[[Message], Message | None] = lambda message: message

    def __post_init__(self) -> None:
        object.__setattr__(self, "dead_letters", self.dead_letters or dead_letter_topic(self.service))

    def content(self, record: Message) -> Hashable:
        """The content of a record of the topic of `published`."""
        declared = record if self.published and self.published.own else self.as_declared(record)
        return None if declared is None or self.published is None else self.published.content(declared)


@dataclass(frozen=True)
class Difference:
    """A place (a Redis key, or topic:partition:offset of a record), and its fault."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def wrong_family(needed: Mapping[bytes, int], known: Container[bytes], stored: Stored | None) -> str | None:
    """The fault of a family: only `known` timelines, those `needed` with a bound up to the time of the first entry."""
    if not isinstance(stored, dict):
        return unequal(needed or None, stored)
    late = {name: first for name, first in needed.items() if float(stored.get(name, math.inf)) > first}
    strange = {name for name in stored if name not in known}
    return unequal((late, set()), ({}, strange)) if late or strange else None


def days(stored: Mapping[bytes, Any]) -> dict[int, bytes]:
    """The lines of a stored history by day. A day's first pieces are in fields of their own: `n.1` is before `n`."""
    found: defaultdict[int, bytes] = defaultdict(bytes)
    for day, _, name in sorted(_field(name) for name in stored if not name.endswith(b"#")):
        found[day] += stored[name]
    return found


def _field(field: bytes) -> tuple[int, float, bytes]:
    day, _, piece = field.partition(b".")
    return int(day), int(piece) if piece else math.inf, field


def unequal(expected: object, stored: object) -> str | None:
    """The reason of a `Difference`, of limited length: for collections, the differing members. None when equal."""
    if expected == stored:
        return None
    expected, stored = _differing(expected, stored)
    texts = str(expected), str(stored)
    same = next((n for n, (left, right) in enumerate(zip(*texts, strict=False)) if left != right), min(map(len, texts)))
    begin = max(0, same - _SHOWN // 2)
    return f"expected {_piece(texts[0], begin)}, found {_piece(texts[1], begin)}"


def _differing(expected: object, stored: object) -> tuple[object, object]:
    """The members of two maps, or of two lists by index, without the common members; other values unchanged."""
    if isinstance(expected, list) and isinstance(stored, list):
        expected, stored = dict(enumerate(expected)), dict(enumerate(stored))
    if not (isinstance(expected, Mapping) and isinstance(stored, Mapping)):
        return expected, stored
    missing = object()
    return (
        {name: value for name, value in expected.items() if stored.get(name, missing) != value},
        {name: value for name, value in stored.items() if expected.get(name, missing) != value},
    )


def _piece(text: str, begin: int) -> str:
    return f"{'…' if begin else ''}{text[begin : begin + _SHOWN]}{'…' if begin + _SHOWN < len(text) else ''}"
