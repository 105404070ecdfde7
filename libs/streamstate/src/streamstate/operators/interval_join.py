"""The windowed join of two streams: pairs of records of one key that are close in time."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from streamstate.app import LATE, Count, Effect, Fold, FoldContext, Record, Source
from streamstate.keys import sortable, unsortable
from streamstate.operators.stream_time import clock, timeline
from streamstate.state.operations import Between, ExpireBefore, Insert, Read


class Entry(NamedTuple):
    """A remembered record: its Kafka timestamp (milliseconds), offset and value."""

    timestamp: int
    offset: int
    value: str


class Pair(msgspec.Struct, frozen=True):
    """Two records of one key; `cause` is the later of both."""

    key: Any
    left: Entry
    right: Entry
    cause: Record[Any, str]


def paired(
    left: Source[Any, str],
    right: Source[Any, str],
    within: int,
    grace: int,
    apply: Callable[[Sequence[Pair]], Iterable[Effect]],
) -> Fold:
    """A fold over each pair of a record of `left` and a record of `right` whose timestamps differ by at most `within`.

    All times are milliseconds of stream time. A record more than `within` + `grace` older than the greatest timestamp
    so far is counted as late and dropped; other records are remembered while a partner may come. So the fold gets each
    pair exactly once, with the second record of the pair. A record with another value than a text is refused.
    """
    join = _Join((left.topic, right.topic), within, grace, apply)
    return Fold((left, right), join.apply, reads=join.reads, settings={"within_ms": within, "grace_ms": grace})


@dataclass(frozen=True)
class _Join:
    topics: tuple[str, str]
    within: int
    grace: int
    apply_pairs: Callable[[Sequence[Pair]], Iterable[Effect]]

    def reads(self, records: Sequence[Record[Any, str]]) -> Iterable[Read]:
        return self._reads(records).values()

    def apply(self, records: Sequence[Record[Any, str]], context: FoldContext) -> Iterable[Effect]:
        """Records match stored entries and earlier records of the batch, so a batch may end anywhere.

        Raises `TypeError` for a value that is no text: the state would give it back as a text.
        """
        stored = {
            place: [_entry(text, time) for text, time in context.values[read]]
            for place, read in self._reads(records).items()
        }
        new: defaultdict[tuple[str, Any], list[Entry]] = defaultdict(list)
        pairs: list[Pair] = []
        late = now = 0
        for record, now in zip(records, clock(records, context), strict=True):
            if record.timestamp + self.within + self.grace < now:
                late += 1
                continue
            own = Entry(record.timestamp, record.offset, _remembered(record.value))
            place = self._other(record.topic), record.key
            near = [
                other
                for other in stored[place] + new.get(place, [])
                if abs(other.timestamp - own.timestamp) <= self.within
            ]
            pairs += [self._pair(record, own, other) for other in sorted(near)]
            new[record.topic, record.key].append(own)
        yield from self.apply_pairs(pairs)
        for (topic, key), entries in new.items():
            yield Insert(topic, str(key), {_text(entry): entry.timestamp for entry in entries})
        # The oldest record that is not late has partners up to `within` before it.
        yield from (ExpireBefore(topic, now - 2 * self.within - self.grace) for topic in self.topics)
        if late:
            yield Count(LATE, late)

    def _pair(self, record: Record[Any, str], own: Entry, other: Entry) -> Pair:
        left, right = (own, other) if record.topic == self.topics[0] else (other, own)
        return Pair(record.key, left, right, record)

    def _reads(self, records: Iterable[Record[Any, str]]) -> dict[tuple[str, Any], Between]:
        """The reads of all partners of `records`, by the partners' topic and key."""
        times: defaultdict[tuple[str, Any], list[int]] = defaultdict(list)
        for record in records:
            times[self._other(record.topic), record.key].append(record.timestamp)
        return {
            (topic, key): Between(timeline(topic, key), min(of_key) - self.within, max(of_key) + self.within + 1)
            for (topic, key), of_key in times.items()
        }

    def _other(self, topic: str) -> str:
        left, right = self.topics
        return right if topic == left else left


def _remembered(value: Any) -> str:
    if not isinstance(value, str):
        msg = f"pairs are of texts, not of {type(value).__name__}; declare both topics by `str` or `TEXT`"
        raise TypeError(msg)
    return value


def _text(entry: Entry) -> str:
    return f"{sortable(entry.offset)} {entry.value}"


def _entry(text: str, timestamp: int) -> Entry:
    offset, _, value = text.partition(" ")
    return Entry(timestamp, unsortable(offset), value)
