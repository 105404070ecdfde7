"""The fold that sends the records of a topic again, with a member of the value as the key."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from streamstate.app import NULLS, Count, Derived, Effect, Emit, Fold, FoldContext, Record, Source
from streamstate.errors import BadRecord
from streamstate.keys import CODECS
from streamstate.keys.unread import UNREAD
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import EventDecoder


class Keyed(NamedTuple):
    """A record for the profile's own topic."""

    key: bytes
    value: bytes


class KeyDecoder:
    """The `decode` of the source: the value with its key; None for a record of another kind without a readable key.

    A null value is UNSET.
    The topic has all records with a readable key: another `where` needs no other topic.
    """

    def __init__(self, declared: Declaration) -> None:
        assert declared.key_field
        self._declared = declared
        self._field = declared.key_field
        self._codec = CODECS[declared.key_type]
        self._key = EventDecoder([self._field])
        named = declared.selection.fields if declared.selection else ()
        self._selected = EventDecoder([declared.types[name] for name in named], declared.selection)

    def __reduce__(self) -> Any:
        return KeyDecoder, (self._declared,)

    def __call__(self, _key: None, value: bytes | None) -> Keyed | UnsetType | None:
        """Raises as `EventDecoder`, and `BadRecord` for a value without a usable key."""
        if value is None:
            return UNSET
        try:
            return Keyed(self._read(value), value)
        except Exception:
            if self._declared.selection and self._selected(None, value) is None:
                return None
            raise

    def _read(self, value: bytes) -> bytes:
        key = self._key(None, value).f0
        if key is None:
            msg = f"the member {self._field.path} is missing or null; it is the key"
            raise BadRecord(msg)
        encoded: bytes = self._codec.encode(key)
        self._codec.decode(encoded)
        return encoded


def require_dated(_keyed: Keyed | UnsetType | None, timestamp: int) -> None:
    """Raise `BadRecord` for the timestamp 0, which Kafka's client replaces by the present."""
    if timestamp == 0:
        msg = "the timestamp is 0; the producer has to set it"
        raise BadRecord(msg)


class Rekeying:
    """The `apply` of the fold into `topic`."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(
        self, records: Sequence[Record[None, Keyed | UnsetType | None]], _context: FoldContext
    ) -> Iterable[Effect]:
        yield from (Emit(self._topic, *record.value, record) for record in records if record.value)
        if nulls := sum(record.value is UNSET for record in records):
            yield Count(NULLS, nulls)


def rekeying(declared: Declaration) -> Fold:
    """The fold of the declared topic into the topic with the profile's keys."""
    begins = any(measure.ever for measure in declared.resolved)
    source: Source[Any, Any] = Source(
        declared.topic, UNREAD, KeyDecoder(declared), requires_beginning=begins, times=require_dated
    )
    users = CODECS[declared.key_type] if declared.of_users else None
    return Fold((source,), Rekeying(declared.keyed_topic), settings={"keyed": declared.keyed_topic}, rekeys=users)


def rekeyed(declared: Declaration) -> dict[str, Derived]:
    """The derived topic, for `App.emits`; none for a topic with the profile's keys."""
    if declared.key_field is None:
        return {}
    return {declared.keyed_topic: Derived(CODECS[declared.key_type], dict, dated=True)}
