"""The kept state of each topic: last values, keys, histories and windows, and their views."""

from collections.abc import Iterator
from typing import Any

import msgspec

from services.topics.decoding import KeptValue, decoder
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.app import App, Form, Record, Source
from streamstate.functions import History, HoppingWindows, Keys, KeySet, Page, State, Text, fold, key_range, view
from streamstate.keys import CODECS
from streamstate.view import View


class Latest(msgspec.Struct):
    """The last value of a key: JSON, text, or bytes in base64; `timestamp` is Kafka's, in milliseconds."""

    key: int | str
    value: msgspec.Raw
    offset: int
    timestamp: int


class HistoryRecord(msgspec.Struct):
    """A record; the value of a tombstone is null."""

    value: msgspec.Raw
    offset: int
    timestamp: int


class KeyHistory(msgspec.Struct):
    """Records of a key in the order of the request; `next` is the cursor of the next page, null on the last page."""

    key: int | str
    records: list[HistoryRecord]
    next: str | None


class NumberWindow(msgspec.Struct):
    """The numbers of a key from `start` to before `end` (milliseconds since 1970)."""

    start: int
    end: int
    count: int
    min: int | float
    max: int | float
    sum: int | float


class NumberWindows(msgspec.Struct):
    """Windows of a key in the order of the request; `next` is the cursor of the next page, null on the last page."""

    key: int | str
    windows: list[NumberWindow]
    next: str | None


_TIME = 1_767_297_600_000
"""The first of January 2026, 20:00 (UTC)."""
LATEST = Latest("anna", msgspec.Raw(b'{"status": "shipped"}'), 17, _TIME)
HISTORY = KeyHistory("anna", [HistoryRecord(msgspec.Raw(b'{"status": "paid"}'), 4, _TIME)], None)
WINDOWS = NumberWindows("anna", [NumberWindow(_TIME, _TIME + 60_000, count=2, min=1.5, max=3, sum=4.5)], None)
KEYS = Keys(["anna", "bob"], "bob")
_decode_latest = msgspec.json.Decoder(tuple[int, int, msgspec.Raw]).decode


def app(settings: KeptSettings) -> App:
    """The use case over the kept topics."""
    apps = [topic_app(kept) for kept in settings.kept]
    return App("topics", tuple(of.folds[0] for of in apps), tuple(view for of in apps for view in of.views))


def topic_app(kept: KeptTopic) -> App:
    """The fold and the views of one topic."""
    # Ranges and windows end with their retention, a last value never.
    last = kept.latest and not (kept.range or kept.windows)
    form: Form = "json" if kept.value == "json" else "text"
    codec, decode = CODECS[kept.key], decoder(kept)
    records = Source(kept.topic, codec, decode, requires_beginning=kept.latest, form=form, last_values=last)

    class KeptKey(State, by=records, users=kept.users, prefix=f"{kept.topic}:"):
        latest = Text()
        if kept.range:
            range = History(kept.range.retention_ms)
        if kept.windows:
            advance = kept.windows.advance_ms or kept.windows.size_ms
            windows = HoppingWindows(kept.windows.size_ms, advance, kept.windows.retention_ms, kept.windows.grace_ms)

    class KeptKeys(State, users=kept.users, prefix=f"{kept.topic}:"):
        keys = KeySet()

    @fold(records, settings=kept.state)
    def keep(record: Record[Any, KeptValue], key: KeptKey, index: KeptKeys) -> None:
        text, number = record.value
        if kept.latest:
            key.latest.set(None if text is None else f"[{record.offset},{record.timestamp},{text}]")
        # The records of deleted users have no key.
        if kept.keys and record.key is not None:
            (index.keys.remove if text is None else index.keys.add)(record.key)
        if kept.range:
            key.range.add(record, text or "null")
        if number is not None:
            key.windows.add(record, number)

    return App("topics", (keep,), (*key_views(kept, KeptKey), *([keys_view(kept, KeptKeys)] if kept.keys else [])))


def key_views(kept: KeptTopic, kept_key: Any) -> Iterator[View[Any]]:
    """The views of the members of a key's state, which is of a class made of the settings."""
    name, path = f"topic-{kept.topic}", f"/v1/topics/{kept.topic}/<key>"

    def latest(key: int | str, state: kept_key) -> Latest | None:
        if (text := state.latest.value) is None:
            return None
        offset, timestamp, value = _decode_latest(text)
        return Latest(key, value, offset, timestamp)

    def history(key: int | str, state: kept_key, page: Page) -> KeyHistory | None:
        if (cut := state.range.page(page)) is None:
            return None
        records = [HistoryRecord(msgspec.Raw(of.text.encode()), of.offset, of.timestamp) for of in cut[0]]
        return KeyHistory(key, records, cut[1])

    def windows(key: int | str, state: kept_key, page: Page) -> NumberWindows | None:
        size = kept.windows.size_ms if kept.windows else 0
        if (cut := state.windows.page(page)) is None:
            return None
        numbers = [NumberWindow(w.start, w.start + size, w.count, w.least, w.most, w.total) for w in cut[0]]
        return NumberWindows(key, numbers, cut[1])

    if kept.latest:
        summary = f"The last value of a key of {kept.topic}"
        yield view(path, LATEST, name=name, summary=summary, scope="explore")(latest)
    if kept.range:
        summary = f"The history of a key of {kept.topic}, by time"
        yield view(f"{path}/range", HISTORY, name=f"{name}-range", summary=summary, scope="explore")(history)
    if kept.windows:
        summary = f"Count, min, max and sum of {kept.windows.field} of a key of {kept.topic}, in windows"
        yield view(f"{path}/windows", WINDOWS, name=f"{name}-windows", summary=summary, scope="explore")(windows)


def keys_view(kept: KeptTopic, kept_keys: Any) -> View[Any]:
    """The view of ranges of the keys with a value."""
    asked: Any = key_range(CODECS[kept.key])
    name, summary = f"topic-{kept.topic}-keys", f"The keys of {kept.topic} that have a value, in their order"

    @view(f"/v1/topics/{kept.topic}", KEYS, topic=kept.topic, name=name, summary=summary, scope="explore")
    def keys(state: kept_keys, wanted: asked) -> Any:
        return state.keys.page(wanted)

    return keys
