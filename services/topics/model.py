"""The kept state of each topic: last values, histories, windows; and its views."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from services.topics.answers import HISTORY, LATEST, WINDOWS, Latest, history, windows
from services.topics.decoding import Kept, decoder
from services.topics.key_ranges import KEYS, NumberRange, TextRange, keys, member
from services.topics.key_ranges import reads as key_reads
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.app import App, Effect, Fold, FoldContext, Form, Record, Setting, Source
from streamstate.keys import CODECS, Number, sortable
from streamstate.operators.pages import Page
from streamstate.operators.windows import Windowed, Windows, clock, timeline
from streamstate.state.operations import (
    Between,
    Delete,
    ExpireBefore,
    Insert,
    Operation,
    Put,
    Read,
    UpdateIndex,
    Value,
)
from streamstate.view import EXPLORE, MOST_MEMBERS, UserKey, UserState, View

Records = Sequence[Record[Any, Kept]]


@dataclass(frozen=True)
class _Topic:
    kept: KeptTopic

    @property
    def windowed(self) -> Windowed | None:
        index = self.kept.windows
        if index is None:
            return None
        advance = index.advance_ms or index.size_ms
        return Windowed(self.family("windows"), Windows(index.size_ms, advance, index.retention_ms, index.grace_ms))

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The members that determine the state of the same records."""
        kept = self.kept
        settings: dict[str, Setting] = {
            "key": kept.key,
            "value": kept.value,
            "latest": kept.latest,
            "range": kept.range is not None,
        }
        # A state from before there were ranges of keys goes on as long as none are asked for.
        if kept.keys:
            settings["keys"] = True
        if kept.windows and self.windowed:
            settings |= {"field": kept.windows.field, **self.windowed.windows.settings}
        return settings

    def family(self, index: str) -> str:
        return f"{self.kept.topic}:{index}"

    def key(self, index: str, key: Any) -> str:
        return timeline(self.family(index), key)

    def reads(self, records: Records) -> Iterable[Read]:
        return self.windowed.reads(records) if self.windowed else ()

    def apply(self, records: Records, context: FoldContext) -> Iterator[Effect]:
        if self.kept.latest:
            yield from self._latest(records)
        if self.kept.range and records:
            yield from self._range(records, context, self.kept.range.retention_ms)
        if self.windowed and records:
            samples = [(record, record.value.number) for record in records]
            yield from self.windowed.sum_up(samples, context)

    def _latest(self, records: Records) -> Iterator[Operation]:
        valued, deleted = [], []
        for key, last in {record.key: record for record in records}.items():
            place = self.key("latest", key)
            if last.value.text is None:
                deleted.append(member(key))
                yield Delete(place)
            else:
                valued.append(member(key))
                yield Put(place, f"[{last.offset},{last.timestamp},{last.value.text}]")
        if self.kept.keys:
            yield UpdateIndex(self.family("keys"), add=valued, remove=deleted)

    def _range(self, records: Records, context: FoldContext, retention: int) -> Iterator[Operation]:
        histories: defaultdict[Any, dict[str, int]] = defaultdict(dict)
        for record in records:
            # The offset distinguishes equal values and orders values of the same moment.
            histories[record.key][f"{sortable(record.offset)} {record.value.text or 'null'}"] = record.timestamp
        for key, entries in histories.items():
            yield Insert(self.family("range"), str(key), entries)
        yield ExpireBefore(self.family("range"), max(clock(records, context)) - retention)

    def places(self, user: Any) -> Iterator[UserKey]:
        if self.kept.latest:
            yield from map(UserKey, self.latest_reads(user))
        for index, kept in (("range", self.kept.range), ("windows", self.kept.windows)):
            if kept:
                yield UserKey(Between(self.key(index, user), 0, n=MOST_MEMBERS), self.family(index))

    def forget_keys(self, users: Collection[Any], _values: Sequence[Any]) -> Iterator[Operation]:
        if self.kept.keys:
            yield UpdateIndex(self.family("keys"), add=[], remove=list(map(member, users)))

    def expire(self, records: Records, context: FoldContext) -> Iterator[Operation]:
        """Records of erased users let time go on, too."""
        if any(record.key is None for record in records):
            now = max(clock(records, context))
            for index, kept in (("range", self.kept.range), ("windows", self.kept.windows)):
                if kept:
                    yield ExpireBefore(self.family(index), now - kept.retention_ms)

    def latest_reads(self, key: Any) -> Sequence[Read]:
        return [Value(self.key("latest", key))]

    def timeline_reads(self, key: Any, page: Page, *, index: str) -> Sequence[Read]:
        return page.reads(self.key(index, key))


_decode_latest = msgspec.json.Decoder(tuple[int, int, msgspec.Raw]).decode


def latest(key: Any, values: Sequence[Any]) -> Latest | None:
    """The last value, None for an unknown or deleted key."""
    (text,) = values
    if text is None:
        return None
    offset, timestamp, value = _decode_latest(text)
    return Latest(key, value, offset, timestamp)


def views(kept: KeptTopic) -> Iterator[View[Any]]:
    """A view for each kept index."""
    topic, name, path = _Topic(kept), f"topic-{kept.topic}", f"/v1/topics/{kept.topic}/<key>"
    view = partial(View[Any], topic=kept.topic, key=CODECS[kept.key], scope=EXPLORE)
    if kept.latest:
        summary = f"The last value of a key of {kept.topic}"
        yield view(name, path, summary, reads=topic.latest_reads, answer=latest, example=LATEST)
    if kept.keys:
        summary = f"The keys of {kept.topic} that have a value, in their order"
        kind = NumberRange if isinstance(CODECS[kept.key], Number) else TextRange
        reads = partial(key_reads, topic.family("keys"))
        path_ = f"/v1/topics/{kept.topic}"
        yield View(f"{name}-keys", path_, summary, kept.topic, None, reads, keys, KEYS, kind, scope=EXPLORE)
    if kept.range:
        summary = f"The history of a key of {kept.topic}, by time"
        reads = partial(topic.timeline_reads, index="range")
        name_, path_ = f"{name}-range", f"{path}/range"
        yield view(name_, path_, summary, reads=reads, answer=history, example=HISTORY, query=Page)
    if kept.windows:
        summary = f"Count, min, max and sum of {kept.windows.field} of a key of {kept.topic}, in windows"
        reads, answer = partial(topic.timeline_reads, index="windows"), partial(windows, size=kept.windows.size_ms)
        name_, path_ = f"{name}-windows", f"{path}/windows"
        yield view(name_, path_, summary, reads=reads, answer=answer, example=WINDOWS, query=Page)


def fold(kept: KeptTopic) -> Fold:
    """The fold of a kept topic."""
    topic = _Topic(kept)
    # Ranges and windows end with their retention, a last value never.
    form: Form = "json" if kept.value == "json" else "text"
    last = kept.latest and not (kept.range or kept.windows)
    decode = decoder(kept)
    source = Source(kept.topic, CODECS[kept.key], decode, requires_beginning=kept.latest, form=form, last_values=last)
    users = UserState(topic.places, rewrite=topic.forget_keys) if kept.users else None
    return Fold((source,), topic.apply, reads=topic.reads, settings=topic.settings, users=users, shared=topic.expire)


def app(settings: KeptSettings) -> App:
    """The use case over the kept topics."""
    kept = settings.kept
    return App("topics", tuple(map(fold, kept)), tuple(view for topic in kept for view in views(topic)))
