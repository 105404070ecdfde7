"""Records of the services' topics in other formats than JSON and text."""

import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from devkit.events.records import Recode
from services import events
from services.clicks.model import USER_CLICKS, USER_REGIONS
from services.events import KINDS, LISTENING_EVENTS
from services.inventory.stock import RESTOCKED, SOLD, Change
from services.names.model import Name
from services.topics.settings import EXAMPLE
from streamstate.errors import RegistryUnavailable
from streamstate.formats.registered.client import AWAY_S
from streamstate.formats.registered.registry import Registry
from streamstate.formats.writing import FormatEncoder
from streamstate.kafka.producer import Outgoing
from streamstate.keys import TEXT


class Booking(msgspec.Struct):
    """The value of a booking of the demo."""

    amount: int
    room: int


DetailedEvent = msgspec.defstruct(
    events.ListeningEvent.__name__,
    [("device", str | None, None), ("genre", str | None, None), ("duration_ms", int | None, None)],
    bases=(events.ListeningEvent,),
    rename="camel",
)
"""A play with optional members. Registries compare the names of schemas, so it has the name of a play."""

TYPES: Mapping[str, type] = {
    LISTENING_EVENTS: DetailedEvent,
    **dict.fromkeys(KINDS, Name),
    EXAMPLE.topic: Booking,
    USER_CLICKS: int,
    **dict.fromkeys((RESTOCKED.topic, SOLD.topic), Change),
    USER_REGIONS: str,
}
"""The type of the values of each topic; other topics have text."""

REGISTERED_S = 60
"""The longest time until a new registry has a schema."""


def declared(topic: str, value: str) -> type:
    """The type in the schema of `topic` in the format `value`.

    JSON Schema has the optional members of plays undeclared: a registry refuses a new member of an open schema as
    not backward compatible.
    """
    kind = TYPES.get(topic, str)
    return events.ListeningEvent if kind is DetailedEvent and value == "jsonschema" else kind


def registered(encoder: FormatEncoder, topic: str) -> FormatEncoder:
    """The encoder with its schema registered for `topic`. Raises `RegistryUnavailable` after `REGISTERED_S`.

    The first schemas of a new registry may take longer than a call of a client.
    """
    deadline = time.monotonic() + REGISTERED_S
    while True:
        try:
            return encoder.registered(topic)
        except RegistryUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(AWAY_S)


def recode(value: str, registry: Registry) -> Recode:
    """A function that writes the values of records in the format `value`; values that do not fit stay unchanged."""
    writers: dict[str, FormatEncoder] = {}

    def written(record: Outgoing) -> Outgoing:
        topic, key, content, headers = record
        if topic not in writers:
            encoder = FormatEncoder((TEXT, TEXT), declared(topic, value), value, {}, registry)
            writers[topic] = registered(encoder, topic)
        if content is None:
            return record
        try:
            return topic, key, writers[topic].write(content), headers
        except Exception:  # noqa: BLE001, a record that is broken on purpose
            return record

    def recoded(records: Iterable[Outgoing]) -> Iterator[Outgoing]:
        return map(written, records)

    return recoded
