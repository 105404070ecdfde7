"""Last values, histories and windows, counted again."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Message

from services.reference_decoding import number_key, pair_key, parsed, sortable, text_key, uuid_key
from services.topics.settings import KeptSettings, KeptTopic, WindowIndex
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

MOST = 2**53
KEYS: Mapping[str, Callable[[Any], int | str | None]] = {
    "long": partial(number_key, size=8),
    "int": partial(number_key, size=4),
    "text": text_key,
    "uuid": uuid_key,
    "pair": pair_key,
}
"""The decoder of keys of each type; None for a key of another type."""

Window = list[Any]
"""Start, count, least, most and sum."""


@dataclass
class Topic:
    """A topic's part of a partition, by key: the last value, the history, the windows; `now` is the stream time."""

    kept: KeptTopic
    now: int = 0
    latest: dict[str, Any] = field(default_factory=dict)
    history: list[tuple[int, str, str, Any]] = field(default_factory=list)
    windows: dict[tuple[str, int], Window] = field(default_factory=dict)
    late: int = 0

    def add(self, message: Message, stream_time: int) -> bool:
        key = KEYS[self.kept.key](message.key())
        value = message.value()
        try:
            content = None if value is None else self._content(value)
            number = None if value is None or self.kept.windows is None else _number(content, self.kept.windows.field)
        except (ValueError, RecursionError):
            return False
        if key is None:
            return False
        self.now = stream_time
        self._keep(str(key), message, content, deleted=value is None)
        if number is not None and self.kept.windows is not None:
            self._sum(str(key), message.timestamp()[1], number, self.kept.windows)
        return True

    def _content(self, value: bytes) -> Any:
        match self.kept.value:
            case "json":
                return parsed(value)
            case "text":
                return value.decode()
            case _:
                return base64.b64encode(value).decode()

    def _keep(self, key: str, message: Message, content: Any, *, deleted: bool) -> None:
        offset, time = message.offset() or 0, message.timestamp()[1]
        self.latest[key] = [offset, time, content]
        if deleted:
            del self.latest[key]
        self.history.append((time, key, sortable(offset), content))

    def _sum(self, key: str, time: int, number: float, index: WindowIndex) -> None:
        advance = index.advance_ms or index.size_ms
        starts = [start for start in range(time // advance * advance, time - index.size_ms, -advance) if start >= 0]
        open_ones = [start for start in starts if start + index.size_ms + index.grace_ms > self.now]
        self.late += len(open_ones) < len(starts)
        for start in open_ones:
            window = self.windows.setdefault((key, start), [start, 0, number, number, 0])
            window[1:] = window[1] + 1, min(window[2], number), max(window[3], number), window[4] + number

    def expired(self, index: str) -> float:
        """The time before which entries of `index` may remain in the state, without being answered."""
        kept = self.kept.range if index == "range" else self.kept.windows
        return self.now - kept.retention_ms if kept else 0

    def state(self) -> dict[str, Any]:
        """The required state: decoded texts, and sorted sets as {decoded member: score}."""
        name = self.kept.topic
        expected: dict[str, Any] = {}
        if self.kept.latest:
            expected |= {f"{name}:latest:{key}": value for key, value in self.latest.items()}
        if self.kept.keys and self.latest:
            numbers = self.kept.key in ("long", "int")
            expected[f"{name}:keys"] = {sortable(int(key)) if numbers else key: 0 for key in self.latest}
        if self.kept.range:
            for time, key, place, content in self.history:
                if time >= self.now - self.kept.range.retention_ms:
                    expected.setdefault(f"{name}:range:{key}", {})[place] = (time, content)
        if self.kept.windows:
            for (key, start), window in self.windows.items():
                if start >= self.now - self.kept.windows.retention_ms:
                    expected.setdefault(f"{name}:windows:{key}", {})[start] = window
        return expected


def _number(content: Any, name: str) -> float:
    number: Any = content.get(name) if isinstance(content, dict) else None
    if isinstance(number, bool) or not isinstance(number, int | float) or not -MOST <= number <= MOST:
        raise ValueError
    return number


class TopicsRecount(Recount):
    """All topics of a partition."""

    def __init__(self, kept: Sequence[KeptTopic]) -> None:
        self._topics = {topic.topic: Topic(topic) for topic in kept}
        # A state counts late records of users until their erasure, a build does not.
        self.unsure = ("late_records",) if any(topic.users for topic in kept) else ()
        self._state: dict[str, Any] | None = None

    def add(self, message: Message, stream_time: int) -> bool:
        self._state = None
        usable = self._topics[str(message.topic())].add(message, stream_time)
        self.counts = {"late_records": sum(topic.late for topic in self._topics.values())}
        return usable

    def add_erased(self, message: Message, stream_time: int) -> None:
        """Time goes on."""
        self._state = None
        self._topics[str(message.topic())].now = stream_time

    def expected_keys(self) -> Iterable[str]:
        return self._expected()

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        topic, index, *rest = [*key.split(":", 2), ""]
        if topic in self._topics and index in ("range", "windows") and not rest[0]:
            return self._wrong_family(key, stored)
        if topic in self._topics and index == "keys":
            return _wrong_index(self._expected().get(key, {}), stored)
        expected = self._expected().get(key)
        if topic in self._topics and index in ("range", "windows") and isinstance(stored, dict):
            stored = _since(self._topics[topic].expired(index), stored) or None
        if expected is None:
            return unequal(None, stored)
        if isinstance(stored, bytes):
            return unequal(expected, json.loads(stored))
        if isinstance(stored, dict):
            return unequal(expected, dict(_entry(index, member.decode(), score) for member, score in stored.items()))
        return unequal(expected, stored)

    def _wrong_family(self, family: str, stored: Stored | None) -> str | None:
        """The sorted set of a family's timelines, each with a lower bound of the times of its entries."""
        times = {
            key.removeprefix(f"{family}:"): min(_times(entries))
            for key, entries in self._expected().items()
            if key.startswith(f"{family}:")
        }
        topic, _, index = family.partition(":")
        expired = self._topics[topic].expired(index)
        if not isinstance(stored, dict | None):
            return unequal(times, stored)
        bounds = {key.decode(): float(score) for key, score in (stored or {}).items()}
        bounds = {key: score for key, score in bounds.items() if key in times or score >= expired}
        if times.keys() == bounds.keys() and all(bounds[key] <= time for key, time in times.items()):
            return None
        return unequal(times, bounds)

    def _expected(self) -> dict[str, Any]:
        if self._state is None:
            self._state = {key: value for topic in self._topics.values() for key, value in topic.state().items()}
        return self._state


def _wrong_index(expected: dict[str, int], stored: Stored | None) -> str | None:
    """The missing keys of an index, and its surplus keys or keys with another score than 0."""
    if not isinstance(stored, dict):
        return unequal(expected or None, stored)
    entries = {(member.encode(), score) for member, score in expected.items()}
    lacking, stray = sorted(entries - set(stored.items())), sorted(set(stored.items()) - entries)
    return None if not (lacking or stray) else f"lacks {lacking[:3]}, has {stray[:3]} besides"


def _since(time: float, members: dict[bytes, Any]) -> dict[bytes, Any]:
    return {member: score for member, score in members.items() if score >= time}


def _times(entries: dict[Any, Any]) -> Iterable[int]:
    """Of a history the times, of windows the starts."""
    return (entry[0] for entry in entries.values())


def _entry(index: str, member: str, score: object) -> tuple[Any, Any]:
    if index == "windows":
        window = json.loads(member)
        return window[0] if window[0] == score else member, window
    place, _, text = member.partition(" ")
    return place, (score, json.loads(text))


def recounted(service: str, kept: Sequence[KeptTopic]) -> Recounted:
    """The recount of a deployment with these topics."""
    return Recounted(service, tuple(topic.topic for topic in kept), partial(TopicsRecount, kept))


def recount(settings: KeptSettings) -> Recounted:
    return recounted("topics", settings.kept)
