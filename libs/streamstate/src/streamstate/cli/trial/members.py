"""The members of events that are key and time, as named or guessed, and their values. Pure."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from streamstate.cli.trial.rows import PER_MS, Row
from streamstate.errors import BadRecord, Misconfigured
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldType
from streamstate.texts import milliseconds

_TIMES = ("timestamp", "eventtime", "time", "ts", "datetime", "date", "at", "createdat", "occurredat")
_LEAST = (("ns", 10**17), ("us", 10**14), ("ms", 10**11), ("s", -(2**63)))
"""The unit of a time by the least number: milliseconds from 1973 on, seconds up to the year 5138."""


class Members(NamedTuple):
    """The paths of key and time; an empty time: events have none. unit: of the time; empty: by its size."""

    key: str
    time: str
    unit: str


def seen(rows: Iterable[Row]) -> list[str]:
    """The names of the members of the events in `rows`."""
    names: dict[str, None] = {}
    for _, value in rows:
        with suppress(msgspec.DecodeError):
            names |= dict.fromkeys(msgspec.json.decode(value, type=dict[str, Any]))
    return [*names]


def chosen(declared: Declaration, fields: Mapping[str, FieldType], seen: Iterable[str], key: str, time: str) -> Members:
    """The members named `key` and `time`, guessed among those `seen` where empty. Raises `Misconfigured`."""
    noun = re.sub(r"[^a-z]|s$", "", declared.path.partition("/<key>")[0].rpartition("/")[2].lower())
    keyed = declared.key_field.path if declared.key_field else _guess(seen, (f"{noun}id", noun, "key", "id"))
    dated = next((path for path, of in fields.items() if of.unit), "") or _guess(seen, _TIMES)
    made = Members(key or keyed, time or dated, fields[time or dated].unit if (time or dated) in fields else "")
    for word, name in (("key", made.key), ("time", time)):
        if (word == "key" and not name) or (name and name.partition(".")[0] not in seen):
            msg = f"no member of the events {f'is called {name}' if name else 'looks like the key'}: name the {word} "
            msg += f"by --{word}-field; there are {', '.join(seen) or 'none: is each line a JSON object?'}"
            raise Misconfigured(msg)
    return made


def _guess(seen: Iterable[str], names: Iterable[str]) -> str:
    """The first of `names` among `seen`, in any spelling; empty without one."""
    spelled = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in seen}
    return next((spelled[name] for name in names if name in spelled), "")


def member(content: Any, path: str) -> Any:
    """The member at a path such as `user.id`. Raises `BadRecord` for an event without it."""
    for name in path.split("."):
        content = content.get(name) if isinstance(content, dict) else None
    if content is None or not isinstance(content, int | float | str) or isinstance(content, bool):
        msg = f"{path} is missing or null" if content is None else f"{path} is neither a text nor a number"
        raise BadRecord(msg)
    return content


def event_time(value: float | str, unit: str) -> int:
    """Milliseconds since 1970. Raises `BadRecord` for a text that is no time."""
    if isinstance(value, str):
        try:
            value = int(value) if value.isdecimal() else milliseconds(value)
        except ValueError as error:
            raise BadRecord(str(error)) from error
    return int(value / PER_MS[unit or next(name for name, least in _LEAST if value >= least)])
