"""The next steps of a dry run: types of fields and keys that read the sampled records. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from streamstate.app import Source
from streamstate.errors import BadRecord
from streamstate.formats.plain import read_json
from streamstate.formats.reading import FormatDecoder
from streamstate.keys import CODECS, DIGITS, INT, LONG, PAIR, TEXT, UUID, KeyCodec
from streamstate.processing.decode import DeadLetter
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldType

Members = Mapping[str, Counter[str]]
"""The number of values of each type but null, by the path of a member. A text of digits is `int(text)`."""

_KEYS: Sequence[KeyCodec[Any]] = (DIGITS, UUID, PAIR, TEXT, LONG, INT)
_PLACE = re.compile(r" - at `\$\.([^`]+)`$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DIGITS = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_LIST, _OBJECT = "list", "object"
_MOST_DECIMALS = 9
_LONGER = f"decimal(>{_MOST_DECIMALS})"
"""More decimals than any type has, such as of a sum of floats; behind the other decimals in the order of text."""


def members(source: Source[Any, Any], values: Iterable[bytes | None]) -> Members:
    """The members of the values, in the service's form."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for value in values:
        try:
            own = value or b""
            own = source.decode.read(own) if isinstance(source.decode, FormatDecoder) else own
            content = read_json(own)
        except Exception:  # noqa: BLE001, S112, a refused record is reported by its reason
            continue
        for path, kind in _kinds(content):
            found[path].update([kind] if kind else [])
    return found


def _kinds(content: Any, around: str = "") -> Iterator[tuple[str, str]]:
    for name, inner in content.items() if isinstance(content, dict) else ():
        yield f"{around}{name}", "" if inner is None else _kind(inner)
        yield from _kinds(inner, f"{around}{name}.")


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "int(text)" if _DIGITS.fullmatch(value) else "str"
    if isinstance(value, float):
        decimals = -int(Decimal(repr(value)).as_tuple().exponent)
        return f"decimal({max(1, decimals)})" if decimals <= _MOST_DECIMALS else _LONGER
    return {bool: "bool", int: "int", list: _LIST}.get(type(value), _OBJECT)


def readable(kinds: Iterable[str]) -> str:
    """The type of a field that reads values of all `kinds`; empty where there is none."""
    if not (found := set(kinds)):
        return ""
    if found <= {"str", "int(text)"}:
        return "str"
    if found <= {"int", "int(text)"}:
        return "int(text)" if len(found) > 1 else "int"
    if all(kind == "int" or kind.startswith("decimal") for kind in found):
        return max(found - {"int"})
    return "bool" if found == {"bool"} else ""


def declarable(kinds: Iterable[str]) -> str:
    """As `readable`, in the words of a file; numbers with more decimals than any type has are rounded."""
    kind = readable(kinds)
    return "decimal(2, round)" if kind == _LONGER else kind


def of_field(of: FieldType, kinds: Counter[str]) -> str:
    """The next step for a field with values of other types; empty where the declared type is right."""
    if not kinds:
        return ""
    if len(kinds) == 1 and (_LIST in kinds or _OBJECT in kinds):
        (kind,) = kinds
        step = "remove the field" if kind == _LIST else f"name a member of the object, such as member: {of.path}.id"
        return f"{of.path} is {_noun(kind)} in the events: {step}"
    kind = readable(kinds)
    if not kind:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
        return f"{of.path} has several types in the events ({counts}): correct the producer, or remove the field"
    if kind == "str" and set(kinds) == {"int(text)"} and of.kind == "int":
        kind = "int(text)"
    if _reads(of, kind):
        return ""
    declared = f'"decimal({of.scale or 2}, round)"' if kind == _LONGER else kind
    written = declared if of.path == of.name else f"{{type: {declared}, member: {of.path}}}"
    return f"{of.path} is {_noun(kind)} in the events: declare {of.name}: {written}"


def _reads(of: FieldType, kind: str) -> bool:
    """Whether the type of the field reads values of this kind."""
    if of.kind == "decimal":
        decimal = kind.startswith("decimal") and (bool(of.written) or kind <= f"decimal({of.scale})")
        return kind == "int" or decimal
    return kind == of.kind or bool(of.written and kind == "int") or (of.written == "text" and kind == "int(text)")


def _noun(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def of_value(letter: DeadLetter, declared: Declaration, seen: Members) -> str:
    """The next step for a record with a refused value, without the value; empty where none is known."""
    error = letter.error
    if place := _PLACE.search(str(error)):
        steps = [of_field(of, seen[of.path]) for of in declared.types.values() if of.path == place[1] in seen]
        return next(iter(steps), "")
    if isinstance(error, msgspec.ValidationError):
        return "each value must be a JSON object"
    if isinstance(error, msgspec.DecodeError):
        return "the value is no JSON: name the format of the topic in STREAMSTATE_FORMATS"
    return ""


def of_keys(declared: Declaration, source: Source[Any, Any], keys: Iterable[bytes | None]) -> str:
    """The next step for refused keys: the types of keys that read all `keys`."""
    if source.key is not CODECS[declared.key_type]:
        return "correct the key of the topic in STREAMSTATE_FORMATS"
    found = set(keys)
    if not any(found):
        return "the records have no keys: the producer must write the key of each record"
    if not (names := key_types(found)):
        return "no type but bytes reads all sampled keys: correct the producer, or declare key: bytes"
    return f"the sampled keys are readable as {' and '.join(names)}: {_declare(names)}"


def of_mistaken_keys(declared: Declaration, source: Source[Any, Any], keys: Iterable[bytes | None]) -> str:
    """The next step for numbers that are read as text, or texts as numbers; empty where the declared type is right."""
    own = CODECS[declared.key_type]
    found = {key for key in keys if has_type(own, key)}
    if source.key is not own or not found:
        return ""
    if own in (LONG, INT):
        mistaken = all(_looks_like(TEXT, key) for key in found)
    else:
        mistaken = not any(_looks_like(own, key) for key in found)
    names = [name for name in key_types(found) if name != own.name]
    if not (mistaken and names):
        return ""
    return f"the sampled keys look like {' and '.join(names)}, not {own.name}: {_declare(names)}"


def key_types(keys: Collection[bytes | None]) -> list[str]:
    """The types of keys that all `keys` look like, the likeliest first."""
    return [codec.name for codec in _KEYS if all(_looks_like(codec, key) for key in keys)]


def _declare(names: Sequence[str]) -> str:
    return f"declare key: {' or key: '.join(names)}"


def _looks_like(codec: KeyCodec[Any], key: bytes | None) -> bool:
    """Whether `key` is of the type of `codec`, and no number read as text."""
    return has_type(codec, key) and (codec not in (TEXT, PAIR) or not _CONTROL.search(codec.decode(key)))


def has_type(codec: KeyCodec[Any], key: bytes | None) -> bool:
    """Whether `key` is of the type of `codec`."""
    try:
        codec.decode(key)
    except BadRecord:
        return False
    return True
