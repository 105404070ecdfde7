"""Records of other formats for a recount, decoded independently: by Confluent's deserializers, struct and json."""

import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import cache, reduce
from operator import getitem
from typing import Any

from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from streamstate.app import App
from streamstate.errors import RegistryUnavailable
from streamstate.formats.applied import ALL
from streamstate.formats.format import Format
from streamstate.formats.reading import VALUE, FormatDecoder
from streamstate.formats.registered.registry import Registry
from streamstate.keys import Number

_NUMBERS = {"long": ">q", "int": ">i", "double": ">d"}


class OwnForm:
    """Converts a record of a topic for which `app` has another format to the service's own form."""

    def __init__(self, app: App, formats: Mapping[str, Format], registry: Registry) -> None:
        self._formats = formats
        self._registry = registry
        self._keys: dict[str, int] = {
            source.topic: source.key.size if isinstance(source.key, Number) else 0 for source in app.sources
        }
        self._keys |= {topic: each.key.size for topic, each in app.emits.items() if isinstance(each.key, Number)}
        self._texts = {source.topic for source in app.sources if source.form == "text"}
        self._texts |= {topic for topic, each in app.emits.items() if each.value in (str, int)}

    def __call__(self, message: Message) -> Message | None:
        """The same record in the service's form, None when it cannot be read. Raises `RegistryUnavailable`."""
        topic = message.topic() or ""
        given = self._formats.get(topic, self._formats.get(ALL))
        if given is None:
            return message
        try:
            key = _key(message.key() or b"", given.key, self._keys.get(topic, 0))
            raw = message.value()
            value = None if raw is None else self._value(topic, given, raw)
        except RegistryUnavailable:
            raise
        except Exception:  # noqa: BLE001, whatever is wrong with it, the record must be among the dead letters
            return None
        return Message(
            topic=topic,
            partition=message.partition(),
            offset=message.offset(),
            key=key if given.key else message.key(),
            value=value,
            headers=message.headers(),
            timestamp=message.timestamp(),
        )

    def _value(self, topic: str, given: Format, raw: bytes) -> bytes:
        is_text = topic in self._texts
        if not (given.value or given.fields):
            return raw
        content = self._content(topic, given, raw, given.value or ("string" if is_text else "json"))
        if isinstance(content, dict):
            content = _renamed(content, given.fields)
            content = _member(content, given.field or VALUE) if is_text else content
        if is_text and isinstance(content, str | bytes):
            return content if isinstance(content, bytes) else content.encode()
        return json.dumps(content, default=_as_json, ensure_ascii=False, separators=(",", ":")).encode()

    def _content(self, topic: str, given: Format, raw: bytes, value: str) -> Any:
        match value:
            case "avro":
                self._registry.schema(int.from_bytes(raw[1:5], "big"))
                return _deserializer(self._registry.url)(raw, SerializationContext(topic, MessageField.VALUE))
            case "protobuf":
                # Google's decoder is the only one for messages; the recount only renames the members.
                read = Format(value="protobuf", message=given.message)
                return json.loads(FormatDecoder.from_format(_as_it_is, "json", read, self._registry).read(raw))
            case "jsonschema":
                self._registry.schema(int.from_bytes(raw[1:5], "big"))
                return json.loads(raw[5:])
            case "json":
                return json.loads(raw)
            case "bytes":
                return raw
            case "string" | "uuid":
                return raw.decode()
            case number:
                return struct.unpack(_NUMBERS[number], raw)[0]


def _renamed(record: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """`record` with its members renamed from the values of `names` to the keys."""
    found = {}
    for own, theirs in names.items():
        with suppress(KeyError, TypeError):
            found[own] = _member(record, theirs)
    return {**{name: each for name, each in record.items() if name not in names.values()}, **found}


def _member(record: Mapping[str, Any], name: str) -> Any:
    """A member, or a nested member. Raises `KeyError` or `TypeError` for a missing member."""
    return record[name] if name in record else reduce(getitem, name.split("."), record)


def _key(raw: bytes, serializer: str, size: int) -> bytes:
    """The key in the service's form: an id in `size` bytes, or text for a size of 0."""
    match serializer:
        case "":
            return raw
        case "long" | "int" | "double":
            text = str(struct.unpack(_NUMBERS[serializer], raw)[0])
        case "bytes":
            text = raw.hex()
        case _:
            text = raw.decode()
    if not size:
        return text.encode()
    if str(int(text)) != text:
        raise ValueError(text)
    return int(text).to_bytes(size, "big", signed=True)


@cache
def _deserializer(url: str) -> Any:
    return AvroDeserializer(SchemaRegistryClient({"url": url}))


def _as_it_is(_key: Any, value: bytes | None) -> bytes | None:
    return value


def _as_json(value: Any) -> Any:
    match value:
        case datetime():
            return round(value.timestamp() * 1_000)
        case Decimal():
            return float(value)
        case _:
            return str(value)
