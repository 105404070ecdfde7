"""The log of packed plays, read again."""

import base64
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from confluent_kafka import Message

from services.recommendations.model import app
from services.recommendations.settings import WindowSettings
from services.reference_decoding import FIELDS, listening_event
from streamstate.app import App
from streamstate.verify.recount import Recount, Recounted, Stored, unequal
from streamstate.verify.replay import Replay

KEY, TOPIC = "plays", "listening-events"
Play = tuple[int, ...]


def unpacked(text: bytes) -> tuple[int, list[Play]]:
    """The stream time in an entry, and its plays. All numbers are little-endian.

    8 bytes of time, the widths of 4 columns in a byte each, then column by column.
    """
    raw = base64.b64decode(text, validate=True)
    time, widths, body = int.from_bytes(raw[:8], "little"), raw[8:12], raw[12:]
    count = len(body) // sum(widths)
    columns, at = [], 0
    for width in widths:
        columns.append([int.from_bytes(body[i : i + width], "little") for i in range(at, at + count * width, width)])
        at += count * width
    return time, list(zip(*columns, strict=True))


class PlaysRecount(Recount):
    """The plays of a partition, by offset, with the stream time at each."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._plays: list[tuple[int, int, Play]] = []
        self._erased = False

    def add(self, message: Message, stream_time: int) -> bool:
        event = listening_event(message)
        if event is not None:
            play = (event["userId"], *(event[name] for name in FIELDS.values()))
            self._plays.append((message.offset() or 0, stream_time, play))
        return event is not None

    def add_erased(self, _message: Message, _stream_time: int) -> None:
        """Record an erasure: entries may have the times and offsets of erased plays."""
        self._erased = True

    def expected_keys(self) -> Iterable[str]:
        return [KEY] if self._plays else []

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        """Compare the log. Batches may be of any size, and the first batches may be beyond the window."""
        if key != KEY or not self._plays:
            return unequal(None, stored)
        if not isinstance(stored, list):
            return unequal("a log", stored)
        at = len(self._plays)
        for number, fields in reversed(stored):
            time, plays = unpacked(fields[b"text"])
            batch = self._plays[max(0, at - len(plays)) : at]
            if [play for *_, play in batch] != plays or not (batch and self._fits(number, time, at - len(batch), at)):
                return f"the entry {number} is not a batch of the plays before it"
            at -= len(plays)
        newest = stored[-1][0] if self._erased and stored else self._plays[-1][0] + 1
        oldest = newest - self._window + 1
        if stored and (stored[0][0] < oldest or (at > 0 and self._plays[at - 1][0] + 1 >= oldest)):
            return f"the window begins at the entry {oldest}, and the log at {stored[0][0]}"
        return unequal("a log", stored) if not stored else None

    def _fits(self, number: int, time: int, start: int, end: int) -> bool:
        """Whether an entry of the plays from `start` to before `end` may have the given number and stream time."""
        first, last = self._plays[start], self._plays[end - 1]
        if not self._erased:
            return (number, time) == (last[0] + 1, first[1])
        following = self._plays[end][0] if end < len(self._plays) else number
        before = self._plays[start - 1][1] if start else 0
        return last[0] < number <= following and before <= time <= first[1]


class AllRecount(Recount):
    """The plays, and a replay of the other folds of `app`."""

    def __init__(self, window: int, app: App) -> None:
        self._plays, self._others = PlaysRecount(window), Replay(app)

    def add(self, message: Message, stream_time: int) -> bool:
        return self._of(message).add(message, stream_time)

    def add_erased(self, message: Message, stream_time: int) -> None:
        self._of(message).add_erased(message, stream_time)

    def expected_keys(self) -> Iterable[str]:
        return [*self._plays.expected_keys(), *self._others.expected_keys()]

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        return (self._plays if key == KEY else self._others).wrong(key, stored)

    def _of(self, message: Message) -> Recount:
        return self._plays if message.topic() == TOPIC else self._others


def recount(settings: WindowSettings) -> Recounted:
    whole = app(settings)
    if len(whole.folds) == 1:
        return Recounted(whole.name, (TOPIC,), partial(PlaysRecount, settings.window))
    others = replace(whole, folds=whole.folds[1:])
    return Recounted(whole.name, (TOPIC, *others.topics), partial(AllRecount, settings.window, others))
