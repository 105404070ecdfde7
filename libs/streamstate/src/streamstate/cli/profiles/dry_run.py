"""The records that a profile would count, without a state. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import msgspec

from streamstate.app import Record, Source
from streamstate.cli.profiles import advice
from streamstate.errors import BadRecord
from streamstate.processing.decode import Admission, DeadLetter, RawRecord, decode_records
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldWords, event_attributes
from streamstate.profile.fold import getter
from streamstate.profile.measure import Measure


class FieldReport(msgspec.Struct):
    """A declared field, and the number of events that have the field.

    nearest: without any event, the nearest member of the values. step: what to declare for values of another type.
        absent: whether no read value has the member, among records of the profile.
    """

    type: str
    events: int
    nearest: str = ""
    step: str = ""
    absent: bool = False


class DryRun(msgspec.Struct):
    """The number of read records, of refused records by reason, and of counted events by measure.

    others, nulls: the number of records left out by the profile's `where`, and without a value. steps: the next steps
        by the reason of refusals. keys: the next step for keys that look like another type; empty where the declared
        type is right.
    """

    records: int
    others: int
    nulls: int
    refused: dict[str, int]
    measures: dict[str, int]
    fields: dict[str, FieldReport]
    steps: dict[str, str]
    keys: str = ""

    @property
    def faults(self) -> list[str]:
        """The faults that the sample shows in the declaration."""
        found = [
            f"the field {name} is in no event: correct its name, or remove the field"
            for name, of in self.fields.items()
            if of.absent
        ]
        number = sum(self.refused.values())
        if number * 2 > self.records:
            found.append(f"{number:,} of {self.records:,} records would be refused: see the reasons above")
        return found


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
    events = [record for record in decoded_records if record.value]
    nulls = sum(record.value is msgspec.UNSET for record in decoded_records)
    letters = [entry for entry in entries if isinstance(entry, DeadLetter)]
    refused = Counter(map(reason, letters))
    get = partial(getter, attributes=event_attributes(declared.fields))
    measures = {measure.name: _counted(measure, events, get) for measure in declared.resolved}
    seen = advice.members(source, (value for records in read.values() for *_, value in records))
    others = len(decoded_records) - len(events) - nulls
    # Without a record of the profile, only the fields of its condition can be judged.
    judged = (
        set(declared.fields) if len(entries) > others + nulls or not declared.selection else declared.selection.fields
    )
    fields = {
        name: _field(declared, name, sum(get(name)(event) is not None for event in events), seen, name in judged)
        for name in declared.fields
    }
    keys = [key for records in read.values() for *_, key, _ in records]
    of_reasons = {reason(letter): letter for letter in letters}
    steps = {
        why: advice.of_value(letter, declared, seen)
        if advice.has_type(source.key, letter.key)
        else advice.of_keys(declared, source, keys)
        for why, letter in of_reasons.items()
    }
    mistaken = advice.of_mistaken_keys(declared, source, keys)
    return DryRun(len(entries), others, nulls, dict(refused.most_common()), measures, fields, steps, mistaken)


def _field(declared: Declaration, name: str, events: int, seen: advice.Members, judged: bool) -> FieldReport:
    """The report of a field. judged: whether the sample has records of the profile."""
    of, written = declared.types[name], _type(declared.fields[name])
    if events:
        return FieldReport(written, events)
    if of.path in seen:
        return FieldReport(written, 0, step=advice.of_field(of, seen[of.path]))
    nearest = _nearest(of.path, set(seen) - {each.path for each in declared.types.values()})
    return FieldReport(written, 0, nearest, absent=judged and bool(seen))


def _counted(measure: Measure, events: Sequence[Record[Any, Any]], get: Callable[[str], Callable[[Any], Any]]) -> int:
    """The number of events that have the fields of the measure, and fulfil its condition."""
    needed = [get(field) for field in (measure.field, measure.by, measure.weight) if field]
    holds = measure.where.compiled(get)
    kept = events if holds is None else filter(holds, events)
    return sum(all(value(event) is not None for value in needed) for event in kept)


def reason(letter: DeadLetter) -> str:
    """The reason of a refusal, without values of the record."""
    if isinstance(letter.error, msgspec.DecodeError):
        return str(letter.error)
    if letter.stage == "decode" and isinstance(letter.error, BadRecord):
        # After the first colon or semicolon, a message may quote the record.
        return str(letter.error).partition(";")[0].partition(":")[0]
    if letter.stage == "timestamp":
        return "the timestamp is in the future, or before 1970"
    return letter.reason


def _type(words: str | FieldWords) -> str:
    return words if isinstance(words, str) else words.type


def _nearest(name: str, members: set[str]) -> str:
    return next(iter(get_close_matches(name, sorted(members), n=1, cutoff=0.5)), "")
