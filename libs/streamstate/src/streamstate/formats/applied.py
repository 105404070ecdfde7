"""An app over topics of other formats than its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamstate.app import App, Derived, Fold, Form, Source
from streamstate.errors import Misconfigured
from streamstate.formats.format import REGISTERED, Format
from streamstate.formats.plain import WITHIN
from streamstate.formats.reading import FormatDecoder, KeyReader
from streamstate.formats.registered.registry import Registry
from streamstate.formats.writing import FormatEncoder, registering
from streamstate.keys import CODECS, DIGITS, INT, LONG, MURMUR2, KeyCodec
from streamstate.keys.framed import Framed
from streamstate.keys.unread import Unread

ALL = "*"
"""Stands for all topics without an entry."""

_OF_IDS: Mapping[str, KeyCodec[Any]] = {"long": LONG, "int": INT, "string": DIGITS}
_OF_TEXT: Mapping[str, KeyCodec[Any]] = {
    "long": CODECS["long-text"],
    "int": CODECS["int-text"],
    "double": CODECS["double"],
    "bytes": CODECS["bytes"],
    "uuid": CODECS["uuid"],
}
"""The text that a service sees for a number or text key of each of Kafka's serializers."""


def formatted(app: App, formats: Mapping[str, Format], registry: Registry) -> App:
    """`app` with `formats`, by the service's topic names; topics without an entry keep the service's format.

    Raises `Misconfigured` for a topic that the app does not have, and for a format that does not fit the app.
    """
    totals = {of_topic.topic: of_topic for of_topic in app.totals}
    own = [topic for topic in (*app.topics, *app.emits, *totals) if topic not in app.own]
    if strange := sorted(set(formats) - {*own, ALL}):
        msg = f"{app.name} has no topic {', '.join(strange)}; it has {', '.join(own)}: correct FORMATS"
        raise Misconfigured(msg)
    declared = {topic: formats.get(topic, formats.get(ALL, Format())) for topic in own}
    declared |= dict.fromkeys(app.own, Format())
    if not registry.url and (needed := [topic for topic, each in declared.items() if each.registered]):
        msg = f"the formats of {', '.join(needed)} need a schema registry: set REGISTRY"
        raise Misconfigured(msg)
    if given := [topic for topic in (*app.emits, *totals) if topic in formats and formats[topic].partitioner]:
        msg = f"{', '.join(given)} is written by {app.name}, whose partitioner is {MURMUR2}: correct FORMATS"
        raise Misconfigured(msg)
    keys = {source.topic: codec(source.topic, source.key, declared[source.topic], registry) for source in app.sources}
    return replace(
        app,
        folds=tuple(_fold(fold, declared, keys, registry) for fold in app.folds),
        views=tuple(
            replace(view, key=keys.get(view.topic or "", view.key)) if view.key else view for view in app.views
        ),
        emits={topic: _derived(topic, each, declared[topic], registry) for topic, each in app.emits.items()},
        totals=tuple(
            replace(each, derived=_derived(topic, each.derived, declared[topic], registry))
            for topic, each in totals.items()
        ),
    )


def registered(app: App) -> App:
    """`app` with the schemas of all emitted records registered.

    Raises `Misconfigured` when the registry refuses a schema, or a class of messages is missing, and
    `RegistryUnavailable` when the registry does not answer.
    """
    for source in app.sources:
        if isinstance(source.decode, FormatDecoder):
            source.decode.require()
    return replace(app, emits={topic: registering(each, app.output(topic)) for topic, each in app.emits.items()})


def codec(topic: str, own: KeyCodec[Any], given: Format, registry: Registry) -> KeyCodec[Any]:
    """The codec of a topic's keys, where the service has the codec `own`. Raises `Misconfigured` when none fits."""
    if not given.key or isinstance(own, Unread) or (given.key == "string" and own.name in ("text", "uuid", "pair")):
        return own
    if given.key in (*REGISTERED, "json") and own.name in ("long", "int", "text", "uuid", "pair"):
        reader = KeyReader(given.key, registry, guids=given.header_ids)
        return Framed(given.key, given.key_schema, given.key_field, own, reader)
    fitting = _OF_IDS if own.name in ("long", "int") else _OF_TEXT if own.name == "text" else {}
    if given.key not in fitting:
        msg = f"the keys of {topic} are of type {own.name}, and cannot be written by the serializer {given.key}"
        raise Misconfigured(msg)
    return fitting[given.key]


def _fold(fold: Fold, formats: Mapping[str, Format], keys: Mapping[str, KeyCodec[Any]], registry: Registry) -> Fold:
    if len({keys[topic].name for topic in fold.topics}) > 1:
        msg = f"{' and '.join(fold.topics)} are merged by their keys: give them the same format of keys"
        raise Misconfigured(msg)
    sources = tuple(_source(each, formats[each.topic], keys[each.topic], registry) for each in fold.sources)
    if len({source.partitioner for source in sources}) > 1:
        placed = " and ".join(f"{source.topic} by {source.partitioner}" for source in sources)
        msg = f"topics merged by a fold are placed alike: {placed}; give them the same partitioner, or copy one"
        raise Misconfigured(msg)
    return replace(fold, sources=sources)


def _source(source: Source[Any, Any], given: Format, key: KeyCodec[Any], registry: Registry) -> Source[Any, Any]:
    decode = source.decode
    if given.value or given.fields or given.bom:
        decode = FormatDecoder.from_format(decode, source.form, given, registry)
    partitioner = given.partitioner or source.partitioner
    return replace(source, key=key, decode=decode, header_ids=given.header_ids, partitioner=partitioner)


def _derived(topic: str, derived: Derived, given: Format, registry: Registry) -> Derived:
    key = codec(topic, derived.key, given, registry)
    if key is derived.key and not (given.value or given.fields):
        return derived
    if any(WITHIN in name for name in given.fields.values()):
        msg = f"the records of {topic} are written, and names within members are for reading only: correct FORMATS"
        raise Misconfigured(msg)
    form: Form = "text" if derived.value in (str, int) else "json"
    reader = FormatDecoder.from_format(lambda _key, value: value, form, given, registry)
    own = derived.key

    def decode(raw: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
        return own.encode(key.decode(raw)), None if value is None else reader.read(value)

    encode = FormatEncoder((own, key), derived.value, given.value, given.fields, registry, latest=given.latest)
    return replace(derived, encode=encode, decode=decode)
