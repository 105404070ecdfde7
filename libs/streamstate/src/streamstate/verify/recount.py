"""The contract of a recount: the state of one partition, counted again by the simplest code there is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from confluent_kafka import Message

from streamstate.app import dead_letter_topic

Entries = list[tuple[int, dict[bytes, bytes]]]

Stored = bytes | dict[bytes, bytes] | dict[bytes, float] | Entries
"""A value as Redis has it: string, hash, sorted set with its scores, stream with its entries' numbers."""

_SHOWN = 200
"""Characters of each side of a difference."""


class Recount(ABC):
    """One partition of a service, made anew for each check.

    counts: what the folds count, apart from dead letters.
    unsure: names of counts that depend on how the records were cut into batches.

    The check calls `add` for every record of the service's topics in offset order, topic by topic, up to what the
    state holds, then `due` and `wrong`; then `add` again, when the state has moved on.
    """

    counts: Mapping[str, int] = {}
    unsure: Collection[str] = ()

    @abstractmethod
    def add(self, message: Message, stream_time: int) -> bool:
        """Count a record; False says that it cannot be used, so that it must be in the dead-letter topic.

        `stream_time` is the greatest timestamp (milliseconds) of its topic's usable records so far, itself included.
        Records that a fold refused, or that came from the future, are not among these.
        """

    def add_erased(self, message: Message, stream_time: int) -> None:  # noqa: B027, most recounts do nothing
        """Count a usable record of a user who was erased, as far as it counts without the user."""

    @abstractmethod
    def expected_keys(self) -> Iterable[str]:
        """The keys that there must be, without the partition's tag."""

    @abstractmethod
    def wrong(self, key: str, stored: Stored | None) -> str | None:
        """What is wrong with `stored`, the value of `key` (None: there is no such key); None when nothing is."""


@dataclass(frozen=True)
class Published:
    """A topic that the folds write to: each record that has a content must be there at least once, and no other.

    caused: the content that a record of the service's topics causes in `topic`, None for none.
    content: the same, read from a record of `topic`; what depends on look-ups is left out of both.
    """

    topic: str
    caused: Callable[[Message], Hashable | None]
    content: Callable[[Message], Hashable]


@dataclass(frozen=True)
class Recounted:
    """How the state of a service is recounted: `services/<x>/recount.py` has one, called `RECOUNT`.

    topics: those that the service folds.
    make: a recount of nothing yet.
    own_names: of topics that a deployment has renamed, the names that the service knows them by.
    dead_letters: the topic of what the service cannot use.
    own_form: a record, in the topic that the service knows it by → the same as the service writes such records, None
        when it cannot be read.
    """

    service: str
    topics: tuple[str, ...]
    make: Callable[[], Recount]
    published: Published | None = None
    own_names: Mapping[str, str] = field(default_factory=dict)
    dead_letters: str = ""
    own_form: Callable[[Message], Message | None] = lambda message: message

    def __post_init__(self) -> None:
        object.__setattr__(self, "dead_letters", self.dead_letters or dead_letter_topic(self.service))

    def renamed(self, name: str, topics: Mapping[str, str]) -> "Recounted":
        """The same of the deployment `name` (the service's own when empty), with other names of topics by its own."""
        service, published = name or self.service, self.published
        return replace(
            self,
            service=service,
            topics=tuple(topics.get(topic, topic) for topic in self.topics),
            published=published and replace(published, topic=topics.get(published.topic, published.topic)),
            dead_letters=topics.get(dead_letter_topic(self.service), dead_letter_topic(service)),
            own_names={other: own for own, other in topics.items()},
        )

    def as_declared(self, message: Message) -> Message | None:
        """`message` in the topic that the service knows it by, and in its form; None when it cannot be read."""
        own = self.own_names.get(message.topic() or "")
        if own is not None:
            message = Message(
                topic=own,
                partition=message.partition(),
                offset=message.offset(),
                key=message.key(),
                value=message.value(),
                headers=message.headers(),
                timestamp=message.timestamp(),
            )
        return self.own_form(message)

    def content(self, record: Message) -> Hashable:
        """What a record of the topic of `published` says."""
        declared = self.as_declared(record)
        return None if declared is None or self.published is None else self.published.content(declared)


@dataclass(frozen=True)
class Difference:
    """A place (a Redis key, or topic:partition:offset of a record), and what is wrong there."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def unequal(expected: object, stored: object) -> str | None:
    """The reason of a `Difference`, of bearable length: of collections, the members that differ. None when equal."""
    if expected == stored:
        return None
    expected, stored = _differing(expected, stored)
    texts = str(expected), str(stored)
    same = next((n for n, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), min(map(len, texts)))
    begin = max(0, same - _SHOWN // 2)
    return f"expected {_piece(texts[0], begin)}, found {_piece(texts[1], begin)}"


def _differing(expected: object, stored: object) -> tuple[object, object]:
    """Of two maps, or of two lists by their indices, the members that are not in both; else both as they are."""
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
