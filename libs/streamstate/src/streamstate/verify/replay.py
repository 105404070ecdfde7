"""The recount of a service without its own: a replay, its folds once more into a state in memory, in large batches.

A difference shows records that the stream lost, repeated or reordered; a replay cannot find a defect of the folds. The
measures of a profile are counted again instead.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from confluent_kafka import Message
from msgspec import structs

from streamstate.app import App, Count, Emit, Fold, FoldContext, Record, no_effects
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.keys import Marker
from streamstate.keys.unread import Unread
from streamstate.processing.decode import Admission, decode_records
from streamstate.profile.declaration import Declaration
from streamstate.profile.indexes.fold import IndexExpiry
from streamstate.state import memory
from streamstate.state.memory import reading, timelines
from streamstate.state.operations import DAY_MS, AppendLines, IncrementScores, Insert, Merge, Operation, PushRecent
from streamstate.verify import profiles, rankings
from streamstate.verify.profiles import rekeyed
from streamstate.verify.recount import Recount, Recounted, Stored, days, unequal, wrong_family

BATCH = 2_000
"""Records of a topic folded at once."""

_BUCKET = re.compile(r"^([^:]*)\.[0-9]+(?=:|$)")
"""The beginning of a key of a bucket, with its number."""

_ANY_TIME = Admission(2**63)


class Replay(Recount):
    """A partition of an app with one topic a fold. Rows of tables are absent: derived records have the rows."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._folds = {fold.sources[0].own_name: fold for fold in app.folds}
        self._waiting: dict[str, list[Record[Any, Any]]] = {topic: [] for topic in self._folds}
        self._times = dict.fromkeys(self._folds, 0)
        self._keys: dict[str, Any] = {}
        self._kinds: dict[str, type[Operation]] = {}
        self._compact: set[str] = set()
        self._counted: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:  # type: ignore[override]
        self._fold_all()
        return self._counted

    def add(self, message: Message, stream_time: int) -> bool:
        record = self._record(message, stream_time)
        if record is not None:
            self._collect(record)
        return record is not None

    def add_erased(self, message: Message, stream_time: int) -> None:
        record = self._record(message, stream_time)
        if record is not None:
            self._collect(structs.replace(record, key=None))

    def _record(self, message: Message, stream_time: int) -> Record[Any, Any] | None:
        """The decoded record, None for an unusable record."""
        source = self._app.source(str(message.topic()))
        raw = message.offset() or 0, message.timestamp()[1], message.key(), message.value()
        (entry,) = decode_records(source, [raw], (None, stream_time), (0, 1), _ANY_TIME).entries
        if not isinstance(entry, Record):
            return None
        if source.marked:
            entry.marker = Marker.from_headers(message.headers())
        return entry

    def _collect(self, record: Record[Any, Any]) -> None:
        waiting = self._waiting[record.topic]
        waiting.append(record)
        if len(waiting) == BATCH:
            self._fold(record.topic)

    def _fold_all(self) -> None:
        for topic, records in self._waiting.items():
            if records:
                self._fold(topic)

    def _fold(self, topic: str) -> None:
        fold, records = self._folds[topic], self._waiting[topic]
        try:
            effects = self._effects(fold, records, self._times[topic])
        except Exception as error:
            msg = f"the fold of {topic} does not fold a record that the stream has folded: {error!r}"
            raise StreamStateError(msg) from error
        for effect in effects:
            if isinstance(effect, Count):
                self._counted[effect.what] += effect.by
            elif not isinstance(effect, Emit):
                self._apply(effect)
        self._times[topic] = records[-1].stream_time
        self._waiting[topic] = []

    def _effects(self, fold: Fold, records: list[Record[Any, Any]], time: int) -> list[Any]:
        """The effects of `records` after the stream time `time`; records of erased users have no key."""
        unread = isinstance(fold.sources[0].key, Unread)
        named = [record for record in records if unread or record.key is not None]
        lookups = fold.lookups(named) if named else {}
        rows = {table: dict.fromkeys(keys) for table, keys in lookups.items()}
        values = {read: reading.answer(self._keys, read) for read in (fold.reads(named) if named else ())}
        context = FoldContext(rows, values, time)
        return [*chain(fold.apply(named, context) if named else (), fold.shared(records, context))]

    def _apply(self, operation: Operation) -> None:
        memory.apply(self._keys, operation)
        match operation:
            case Insert(family, key) | AppendLines(family, key):
                self._kinds[f"{family}:{key}"] = type(operation)
            case Merge(key) | IncrementScores(key) | PushRecent(key):
                self._kinds[key] = type(operation)
        if isinstance(operation, IncrementScores) and operation.compact:
            self._compact.add(operation.key)

    def expected_keys(self) -> Iterable[str]:
        self._fold_all()
        plain = [key for key in self._keys if key not in self._compact and self._expected(key) is not None]
        return [*plain, *chain.from_iterable(map(self._layout, self._compact))]

    def holds(self, key: str) -> bool:
        """Whether a record has written `key`."""
        self._fold_all()
        return key in self._kinds

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        self._fold_all()
        if (ranking := _BUCKET.sub(r"\1", key)) in self._compact:
            return unequal(self._layout(ranking).get(key), stored)
        value, kind = self._keys.get(key), self._kinds.get(key)
        if isinstance(value, timelines.Family):
            return self._wrong_family(key, value, stored)
        found: Any = stored
        if isinstance(stored, dict):
            first = timelines.expired(self._keys, key)
            if kind is AppendLines:
                found = {day: lines for day, lines in days(stored).items() if day * DAY_MS >= first} or None
            elif kind in (Insert, None):
                found = {text: time for text, time in stored.items() if float(time) >= first} or None
        return unequal(self._expected(key), found)

    def _layout(self, ranking: str) -> Mapping[str, Stored]:
        """The keys of a compact ranking."""
        family, colon, name = ranking.partition(":")
        return rankings.stored(self._keys.get(ranking, {}), family, f"{colon}{name}", compact=True)

    def _expected(self, key: str) -> Any:
        """The value of `key` in Redis, None for a missing key; of a family, the first times."""
        value = self._keys.get(key)
        match value:
            case timelines.Family():
                return self._firsts(key, value) or None
            case str():
                return value.encode()
            case set():
                return {member.encode(): 0.0 for member in value} or None
            case timelines.Log():
                return [(number, {b"text": text}) for number, text in value.entries.items()]
            case dict():
                return _encoded(value, self._kinds[key], timelines.expired(self._keys, key)) or None
            case _:
                return None

    def _wrong_family(self, name: str, family: timelines.Family, stored: Stored | None) -> str | None:
        """The fault of a family. It may name a timeline whose last entry is expired."""
        known, found = {key.removeprefix(f"{name}:").encode() for key in family.timelines}, stored
        if isinstance(stored, dict) and family.expired is not None:
            found = {key: float(time) for key, time in stored.items() if key in known or float(time) >= family.expired}
        return wrong_family(self._firsts(name, family), known, found)

    def _firsts(self, name: str, family: timelines.Family) -> dict[bytes, int]:
        """The times of the first entries that are not expired, by timeline."""
        firsts = {}
        for key in family.timelines:
            held = self._keys[key]
            times = (day * DAY_MS for day in held) if self._kinds[key] is AppendLines else held.values()
            if unexpired := [time for time in times if family.expired is None or time >= family.expired]:
                firsts[key.removeprefix(f"{name}:").encode()] = min(unexpired)
        return firsts


def _encoded(held: Mapping[Any, Any], kind: type[Operation], first: float) -> dict[Any, Any]:
    """A key made by operations of `kind`, as in Redis: a hash or a sorted set, or a history by day, from `first` on."""
    if kind is Merge:
        return {field.encode(): b"%d" % number for field, number in held.items()}
    if kind is IncrementScores:
        return {member.encode(): -float(score) for member, score in held.items()}
    if kind is AppendLines:
        return {day: lines.encode() for day, lines in held.items() if day * DAY_MS >= first}
    return {text.encode(): float(time) for text, time in held.items() if kind is not Insert or time >= first}


class ProfileAndReplay(Recount):
    """A partition of an app whose fold has a profile, and shared state beside."""

    def __init__(self, app: App, declared: Declaration) -> None:
        (fold,) = app.folds
        self._profile = profiles.ProfileRecount(declared)
        self._shared = Replay(replace(app, folds=(replace(fold, apply=no_effects),)))

    @property
    def counts(self) -> Mapping[str, int]:  # type: ignore[override]
        return Counter(self._profile.counts) + Counter(self._shared.counts)

    def add(self, message: Message, stream_time: int) -> bool:
        return self._shared.add(message, stream_time) and self._profile.add(message, stream_time)

    def add_erased(self, message: Message, stream_time: int) -> None:
        self._shared.add_erased(message, stream_time)

    def expected_keys(self) -> Iterable[str]:
        yield from self._shared.expected_keys()
        yield from self._profile.expected_keys()

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        part = self._shared if self._shared.holds(key) else self._profile
        return part.wrong(key, stored)


def recounted(app: App) -> Recounted:
    """The recount of `app` without its own. Raises `Misconfigured` for a fold of several topics."""
    fold, *others = app.folds
    declared = Declaration.of_state(app.name, str(fold.settings["profile"])) if "profile" in fold.settings else None
    if declared is None or (others and not declared.key_field):
        return replayed(app)
    if declared.key_field:
        return rekeyed.recounted(app, declared)
    if fold.shared is no_effects or isinstance(fold.shared, IndexExpiry):
        return profiles.recounted(declared)
    return Recounted(app.name, app.topics, partial(ProfileAndReplay, app, declared))


def replayed(app: App) -> Recounted:
    """The recount of `app` by a replay. Raises `Misconfigured` for a fold of several topics."""
    if app.merges:
        msg = (
            f"a fold of {app.service} merges topics, in an order that a replay does not know; "
            f"write services/{app.service}/recount.py (docs/add-a-service.md#verification)"
        )
        raise Misconfigured(msg)
    return Recounted(app.name, app.topics, partial(Replay, app))
