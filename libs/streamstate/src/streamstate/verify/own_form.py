"""Records of a deployment's topics, in the form, with the times and under the topic names that a service declares."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from confluent_kafka import Message

from streamstate.app import App, Source
from streamstate.errors import OutOfBounds, RegistryUnavailable
from streamstate.formats.event_times import EventTimes
from streamstate.formats.reading import FormatDecoder
from streamstate.formats.typed import without_surrogates
from streamstate.keys import KeyCodec
from streamstate.processing.decode import raw_record, topics_with_header_ids
from streamstate.profile.declaration import Declaration
from streamstate.verify.profiles.words import UNUSABLE, content_of, event_of, time_of
from streamstate.verify.recount import Recounted

Convert = Callable[[bytes, bytes | None], tuple[bytes, bytes | None]]
"""Key and value of a record in the topic's format → in the service's."""


def of_deployment(recounted: Recounted, own: App, app: App) -> Recounted:
    """`recounted` for the deployment `app` of the service's app `own`."""
    published = recounted.published
    return replace(
        recounted,
        service=app.name,
        topics=app.topics,
        published=published and replace(published, topic=app.output(published.topic)),
        dead_letters=app.dead_letters,
        rekeyed=app.rekeyed,
        as_declared=OwnForm(own, app),
    )


class OwnForm:
    """Converts a record of a topic of `app`, a deployment of the service's app `own`."""

    def __init__(self, own: App, app: App) -> None:
        self._topics: dict[str, tuple[str, Convert | None]] = {
            source.topic: (declared.topic, _conversion(declared.key, source))
            for declared, source in zip(own.sources, app.sources, strict=True)
        }
        self._app = app
        self._times = {each.topic: each.times for each in app.sources if isinstance(each.times, EventTimes)}
        self._header_ids = topics_with_header_ids(app)
        for topic, derived in app.emits.items():
            same = derived == own.emits[topic]
            self._topics[app.output(topic)] = topic, None if same else derived.decode

    def __call__(self, message: Message) -> Message | None:
        """The same record as declared, None when it cannot be read. Raises `RegistryUnavailable`."""
        topic, convert = self._topics[str(message.topic())]
        _, _, key, value = raw_record(message, header_ids=message.topic() in self._header_ids)
        try:
            if convert:
                key, value = convert(key or b"", value)
            if (times := self._times.get(str(message.topic()))) and _selects(self._app, value):
                value = bounded(times, value, message.timestamp()[1])
        except RegistryUnavailable:
            raise
        except Exception:  # noqa: BLE001, whatever is wrong with it, the record must be among the dead letters
            return None
        if not convert and topic == message.topic() and value == message.value():
            return message
        return Message(
            topic=topic,
            partition=message.partition(),
            offset=message.offset(),
            key=key,
            value=value,
            headers=message.headers(),
            timestamp=message.timestamp(),
        )


def _conversion(own: KeyCodec[Any], source: Source[Any, Any]) -> Convert | None:
    """The conversion of the records of `source` to keys of the codec `own`; None without a difference."""
    if source.key is own and not isinstance(source.decode, FormatDecoder):
        return None
    return partial(_converted, own, source)


def _converted(
    own: KeyCodec[Any], source: Source[Any, Any], key: bytes, value: bytes | None
) -> tuple[bytes, bytes | None]:
    converted = key if source.key is own else own.encode(source.key.decode(key))
    if value is None or not isinstance(source.decode, FormatDecoder):
        return converted, value
    return converted, source.decode.read(value)


_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""The units of a second."""


def bounded(times: EventTimes, value: bytes | None, timestamp: int) -> bytes | None:
    """The JSON `value` with its times in bounds. Raises `OutOfBounds`, and for a value that is no JSON."""
    if value is None:
        return None
    content = content_of(value)
    for path, unit in times.members.values():
        *around, last = path.split(".")
        inner: Any = content
        for name in around:
            inner = inner.get(name) if isinstance(inner, dict) else None
        written = inner.get(last) if isinstance(inner, dict) else None
        if (time := _milliseconds(written, unit)) is None:
            continue
        low = time if times.behind_ms is None else timestamp - times.behind_ms
        high = time if times.ahead_ms is None else timestamp + times.ahead_ms
        if not low <= time <= high:
            if not times.clamp:
                raise OutOfBounds(path)
            bound = Decimal(min(max(low, time), high)) * _PARTS[unit] / 1_000
            number = int(bound) if type(written) is int and bound == int(bound) else str(bound)
            value = _replaced(value, [*around, last], json.dumps(number).encode())
    return value


def _replaced(value: bytes, path: list[str], member: bytes) -> bytes:
    """The object `value` with `member` at `path`, and all other bytes as they were."""
    name, *inner = path
    members = msgspec.json.decode(without_surrogates(value), type=dict[str, msgspec.Raw])
    members[name] = msgspec.Raw(_replaced(bytes(members[name]), inner, member) if inner else member)
    texts = (msgspec.json.encode(each) + b": " + bytes(raw) for each, raw in members.items())
    return b"{" + b", ".join(texts) + b"}"


def _milliseconds(written: Any, unit: str) -> int | None:
    """The time, None for a value that is no time."""
    try:
        return time_of(written, f"time({unit})")
    except UNUSABLE:
        return None


def _selects(app: App, value: bytes | None) -> bool:
    """Whether `value` is an event of the profile of `app`, whose other records name no time."""
    profile = app.folds[0].settings.get("profile")
    declared = Declaration.of_state(app.name, str(profile)) if profile else None
    if declared is None or not declared.where:
        return True
    kinds = {name: of if isinstance(of, str) else of.type for name, of in declared.fields.items()}
    paths = {name: name if isinstance(of, str) else of.member for name, of in declared.fields.items()}
    return event_of(value, kinds, paths, declared.where) is not None
