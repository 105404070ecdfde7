"""The recount of a profile whose key is a member of the values: the records of its two topics."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from confluent_kafka import Message

from streamstate.app import App
from streamstate.keys import CODECS, Marker
from streamstate.profile.declaration import Declaration
from streamstate.verify.profiles import ProfileRecount
from streamstate.verify.profiles.words import UNUSABLE, event_of, member_of
from streamstate.verify.recount import Published, Recount, Recounted, Stored, unequal

Content = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp."""


class ValueKeys:
    """The keys in the values of the declared topic."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._path = declared.key.removeprefix("value.")
        types = {name: of if isinstance(of, str) else of.type for name, of in declared.fields.items()}
        self._paths = {name: name if isinstance(of, str) else of.member for name, of in declared.fields.items()}
        (self._kind,) = {types[name] for name, path in self._paths.items() if path == self._path}
        self._kinds = types

    def of(self, message: Message) -> bytes:
        """The key. Raises an error of `UNUSABLE`."""
        key, codec = member_of(message.value(), self._path, self._kind), CODECS[self._declared.key_type]
        if key is None or message.timestamp()[1] == 0:
            raise ValueError
        codec.decode(encoded := codec.encode(key))
        return encoded

    def usable(self, message: Message) -> bool:
        """Whether the record has a key, is null or of another kind."""
        try:
            self.of(message)
        except UNUSABLE:
            return self._is_other(message)
        return True

    def _is_other(self, message: Message) -> bool:
        if message.timestamp()[1] == 0:
            return False
        if message.value() is None:
            return True
        if not self._declared.where:
            return False
        try:
            return event_of(message.value(), self._kinds, self._paths, self._declared.where) is None
        except UNUSABLE:
            return False

    def caused(self, message: Message) -> Content | None:
        """The record with its key, None for another record."""
        if message.topic() != self._declared.topic:
            return None
        try:
            return self.of(message), message.value(), message.timestamp()[1]
        except UNUSABLE:
            return None


class RekeyedRecount(Recount):
    """The keys of a partition: the records of the topic with the keys, without repeats."""

    def __init__(self, declared: Declaration, topic: str) -> None:
        self._declared = declared
        self._topic = topic
        self._keys = ValueKeys(declared)
        self._profile = ProfileRecount(declared)
        self._last: dict[str, tuple[int, int]] = {}
        self._others = Counter[str]()

    @property
    def counts(self) -> Mapping[str, int]:  # type: ignore[override]
        return Counter(self._profile.counts) + self._others

    def add(self, message: Message, stream_time: int) -> bool:
        if message.topic() == self._declared.topic:
            usable = self._keys.usable(message)
            self._others["null_values"] += usable and message.value() is None
            return usable
        if message.value() is None:
            self.add_erased(message, stream_time)
            return True
        # A dead letter of the topic moves no marker.
        if self._profile.read(message) is None:
            return False
        if self._is_first(message):
            self._profile.add(message, stream_time)
        else:
            self._profile.add_erased(message, stream_time)
        return True

    def add_erased(self, message: Message, stream_time: int) -> None:
        if message.topic() != self._declared.topic:
            self._is_first(message)
            self._profile.add_erased(message, stream_time)

    def _is_first(self, message: Message) -> bool:
        marker = Marker.from_headers(message.headers())
        if marker is None:
            return True
        key, place = f"repeats:{self._topic}:{marker.topic_id}:{marker.partition}", (marker.offset, marker.number)
        if place <= self._last.get(key, (-1, -1)):
            self._others["repeats"] += 1
            return False
        self._last[key] = place
        return True

    def expected_keys(self) -> Iterable[str]:
        yield from self._last
        yield from self._profile.expected_keys()

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        if key in self._last:
            offset, number = self._last[key]
            return unequal(b"%d:%d" % (offset, number), stored)
        return self._profile.wrong(key, stored)


def content(message: Message) -> Content:
    """The content of a record of the topic with the keys."""
    return message.key(), message.value(), message.timestamp()[1]


def recounted(app: App, declared: Declaration) -> Recounted:
    """The recount of the state of `declared`, by `app`."""
    topic, keys = declared.keyed_topic, ValueKeys(declared)
    return Recounted(
        declared.name,
        app.topics,
        partial(RekeyedRecount, declared, topic),
        Published(topic, keys.caused, content, own=True),
    )
