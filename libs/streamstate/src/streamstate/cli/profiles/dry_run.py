"""The records that a profile would count, without a state. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import msgspec

from streamstate.app import Record, Source
from streamstate.errors import BadRecord
from streamstate.formats.reading import FormatDecoder
from streamstate.processing.decode import Admission, DeadLetter, RawRecord, decode_records
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldWords, event_attributes
from streamstate.profile.fold import getter
from streamstate.profile.measure import Measure


class FieldReport(msgspec.Struct):
    """A declared field, and the number of events that have the field. Without any: the `nearest` member of values."""

    type: str
    events: int
    nearest: str = ""


class DryRun(msgspec.Struct):
    """The number of read records, of refused records by reason, and of counted events by measure.

    others: the number of records left out by the profile's `where`.
    """

    records: int
    others: int
    refused: dict[str, int]
    measures: dict[str, int]
    fields: dict[str, FieldReport]


def dry_run(
    declared: Declaration, source: Source[Any, Any], read: Mapping[int, Sequence[RawRecord]], latest: int
) -> DryRun:
    """The count of the records `read`, by partition; `latest` is the greatest accepted timestamp in milliseconds.

    Raises `RegistryUnavailable` when a schema cannot be fetched.
    """
    entries: list[Record[Any, Any] | DeadLetter] = []
    for partition, records in read.items():
        decoded = decode_records(source, records, (None, 0), (partition, max(read) + 1), Admission(latest))
        if decoded.held:
            raise decoded.held.error
        entries += decoded.entries
    decoded_records = [entry for entry in entries if isinstance(entry, Record)]
    events = [record for record in decoded_records if record.value is not None]
    refused = Counter(_reason(entry) for entry in entries if isinstance(entry, DeadLetter))
    get = partial(getter, attributes=event_attributes(declared.fields))
    measures = {measure.name: _counted(measure, events, get) for measure in declared.resolved}
    getters = {name: get(name) for name in declared.fields}
    present = {name: sum(value(event) is not None for event in events) for name, value in getters.items()}
    paths = {name: declared.types[name].path for name in declared.fields}
    members = _members(source, read) - set(paths.values()) if 0 in present.values() else set()
    fields = {
        name: FieldReport(_type(declared.fields[name]), number, "" if number else _nearest(paths[name], members))
        for name, number in present.items()
    }
    others = len(decoded_records) - len(events)
    return DryRun(len(entries), others, dict(refused.most_common()), measures, fields)


def _counted(measure: Measure, events: Sequence[Record[Any, Any]], get: Callable[[str], Callable[[Any], Any]]) -> int:
    """The number of events that have the fields of the measure, and fulfil its condition."""
    needed = [get(field) for field in (measure.field, measure.by, measure.weight) if field]
    holds = measure.where.compiled(get)
    kept = events if holds is None else filter(holds, events)
    return sum(all(value(event) is not None for value in needed) for event in kept)


def _reason(letter: DeadLetter) -> str:
    """The reason of a refusal, without values of the record."""
    if isinstance(letter.error, msgspec.DecodeError):
        return str(letter.error)
    if letter.stage == "decode" and isinstance(letter.error, BadRecord):
        # After the first colon or semicolon, a message may quote the record.
        return str(letter.error).partition(";")[0].partition(":")[0]
    return letter.reason


def _type(words: str | FieldWords) -> str:
    return words if isinstance(words, str) else words.type


def _members(source: Source[Any, Any], read: Mapping[int, Sequence[RawRecord]]) -> set[str]:
    """The paths of all members of the values, in the service's form."""
    found: set[str] = set()
    for *_, value in (record for records in read.values() for record in records):
        try:
            own = value or b""
            own = source.decode.read(own) if isinstance(source.decode, FormatDecoder) else own
            content = msgspec.json.decode(own)
        except Exception:  # noqa: BLE001, S112, a refused record is reported by its reason
            continue
        found |= set(_paths(content))
    return found


def _paths(content: Any, around: str = "") -> Iterator[str]:
    for name, inner in content.items() if isinstance(content, dict) else ():
        yield f"{around}{name}"
        yield from _paths(inner, f"{around}{name}.")


def _nearest(name: str, members: set[str]) -> str:
    return next(iter(get_close_matches(name, sorted(members), n=1, cutoff=0.5)), "")
