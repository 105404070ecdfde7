"""A measure of a profile: its words as written, and resolved. Pure."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal, get_args

import msgspec

from streamstate.errors import Misconfigured
from streamstate.profile.conditions import Condition, condition
from streamstate.profile.fields import TIMESTAMP, FieldType
from streamstate.state.operations import DAY_MS

Kind = Literal["count", "total", "least", "most", "mean", "first", "last", "top", "distinct", "recent", "sessions"]

EVER = "ever"
"""The window without a beginning and an end."""

MOST_LISTED = 1_000
"""The most values of a top or recent."""

GROUPS, RANKED = 1_000, 100_000
"""How many values of the field `by`, and of a top or distinct, have numbers of their own, unless declared."""
_MORE = 10
"""So many times as many may be declared."""

_KINDS: tuple[Kind, ...] = get_args(Kind)
SPLIT = ("count", "total", "least", "most", "mean")
"""The kinds of one number, also for each value of the field `by`."""
_LISTED = ("top", "recent")
"""The kinds with a number and the field `of`."""
_NUMBERS = ("total", "least", "most", "mean")
"""The kinds of a field of numbers."""

SLOT_MS = 300_000
"""A window over all keys begins and ends with a slot of this length."""

MOST_WINDOW_MS = 366 * DAY_MS
UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_RESERVED = ("key", "windows", "other")


class BadDeclaration(Misconfigured):
    """A declaration that cannot be used. `path` is the place in it, from the outermost member."""

    def __init__(self, reason: str, *path: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class MeasureWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A measure as written. Exactly one of the members up to `sessions` says what is measured.

    count: the number of events (`all`), or of events with a field. total, least, most, mean: of a field of numbers.
    first, last: the value of a field, or `timestamp`, by Kafka's timestamp, ties by offset.
    top: so many values of the field `of`, the most frequent, or with `total` the values with the greatest total of that
        field. distinct: the number of values of a field. recent: so many values of the field `of`, newest first.
    sessions: the number of periods without a pause longer than a time, such as `30m`.
    of: the field of a top or recent. by: one result for each value of this field. where: the events that count.
    every: over all keys, one number for each period such as `1h`, with the median of the same time of all days.
    over: windows (`7d`) and `ever`. index: whether keys are found by the value.
    values: how many values of `by` (1,000 by default), of a top or of distinct (100,000) have numbers of their own; the
        numbers of further values are in the answer's `other`.
    """

    count: str = ""
    total: str = ""
    least: str = ""
    most: str = ""
    mean: str = ""
    first: str = ""
    last: str = ""
    top: int = 0
    distinct: str = ""
    recent: int = 0
    sessions: str = ""
    of: str = ""
    by: str = ""
    every: str = ""
    where: dict[str, Any] = {}
    over: str | list[str] = EVER
    index: bool = False
    values: int = 0


class TrailingWindow(msgspec.Struct, frozen=True):
    """A trailing window: its `label` as declared, and its length in milliseconds."""

    label: str
    ms: int


class Measure(msgspec.Struct, frozen=True):
    """A measure, resolved. `field` and the other names of fields are empty where the measure has none.

    n: of a top or recent. weight: the field whose total orders a top. windows: the trailing windows, longest first.
        labels: the windows and `ever` as declared. index: whether keys are found by the value.
    every_ms: the length of the periods that have a number each, 0 where the measure has one number.
    values: how many values of `by`, of a top or of distinct have numbers of their own; 0 for another measure.
    """

    name: str
    kind: Kind
    field: str
    by: str
    weight: str
    n: int
    gap_ms: int
    where: Condition
    windows: tuple[TrailingWindow, ...]
    labels: tuple[str, ...]
    index: bool
    values: int
    every_ms: int = 0

    @property
    def ever(self) -> bool:
        """Whether the measure also counts everything."""
        return EVER in self.labels

    @property
    def index_names(self) -> Mapping[str, str]:
        """The names of the measure's indexes, by window or `ever`."""
        single = len(self.labels) == 1
        return {label: self.name if single else f"{self.name}_{label}" for label in self.labels if self.index}

    @property
    def fields(self) -> set[str]:
        """The fields that the measure reads, apart from the timestamp."""
        return {self.field, self.by, self.weight, *self.where.fields} - {"", TIMESTAMP}


def resolve(name: str, words: MeasureWords, types: Mapping[str, FieldType]) -> Measure:
    """The measure called `name`. Raises `BadDeclaration`."""
    place = ("measures", name)
    require_name(name, "measure", *place)
    kind, field, weight = _subject(words, place)
    for word, named in (("by", words.by), ("total", weight), ("of" if words.of else kind, field)):
        if named:
            require_known(named, [*types, *(["all"] if word == "count" else [])], "field", *place, word)
    if numbers := weight or (field if kind in _NUMBERS else ""):
        numeric = types[numbers].kind in ("int", "decimal")
        require(numeric, f"{numbers} is no number", *place, "total" if weight else kind)
    require(not words.by or kind in SPLIT, f"{kind} has no by; by is for {', '.join(SPLIT)}", *place, "by")
    labels = (words.over,) if isinstance(words.over, str) else tuple(words.over)
    named_once = 0 < len(labels) == len(set(labels))
    require(named_once, "name each window once, such as over: [7d, ever]", *place, "over")
    trailing = (label for label in labels if label != EVER)
    windows = longest_first(TrailingWindow(label, duration_ms(label, *place, "over")) for label in trailing)
    for one, other in pairwise(windows):
        require(one.ms != other.ms, f"{one.label} and {other.label} are one window; leave out a name", *place, "over")
    gap = duration_ms(words.sessions, *place, "sessions") if words.sessions else 0
    require(not gap or EVER not in labels, "sessions need windows, such as over: 30d", *place, "over")
    indexed = not words.index or (kind in ("count", "total") and not words.by)
    require(indexed, "an index is of a count or total, without by", *place, "index")
    where = resolve_where(words.where, types, place)
    n, every = words.top or words.recent, _every_ms(words, kind, labels, place)
    values = _values(words, kind, place)
    return Measure(name, kind, field, words.by, weight, n, gap, where, windows, labels, words.index, values, every)


def _every_ms(words: MeasureWords, kind: Kind, labels: tuple[str, ...], place: tuple[str, ...]) -> int:
    """The length of the periods of a measure, 0 without `every`."""
    if not words.every:
        return 0
    split = kind in ("count", "total") and not words.by and EVER not in labels
    require(split, "every is for count and total over windows, without by, such as over: 30d", *place, "every")
    period = duration_ms(words.every, *place, "every")
    fits = period % SLOT_MS == 0 and DAY_MS % period == 0
    require(fits, "every is from 5m to 1d, a multiple of 5m and a part of a day, such as 1h", *place, "every")
    return period


def _values(words: MeasureWords, kind: Kind, place: tuple[str, ...]) -> int:
    """How many values have numbers of their own."""
    default = GROUPS if words.by else RANKED if kind in ("top", "distinct") else 0
    require(default or not words.values, "values is for by, top and distinct", *place, "values")
    most = _MORE * default
    require(0 <= words.values <= most, f"values is a number from 1 to {most:,}", *place, "values")
    require(words.values >= words.top or not words.values, "a top has at most so many values", *place, "values")
    return words.values or default


def _subject(words: MeasureWords, place: tuple[str, ...]) -> tuple[Kind, str, str]:
    """The kind of a measure, its field, and the field whose total orders a top."""
    named = [kind for kind in _KINDS if getattr(words, kind)]
    weight = words.total if set(named) == {"top", "total"} else ""
    kinds = ["top"] if weight else named
    found = " and ".join(named) or "none"
    require(len(kinds) == 1, f"a measure has one of {', '.join(_KINDS)}; found {found}", *place)
    (kind,) = kinds
    of = "of names the field of a top or recent, such as {top: 5, of: genre}"
    require((kind in _LISTED) == bool(words.of), of, *place)
    if kind in _LISTED:
        in_range = 0 < (words.top or words.recent) <= MOST_LISTED
        require(in_range, f"{kind} is a number from 1 to {MOST_LISTED}", *place, kind)
        return kind, words.of, weight  # type: ignore[return-value]
    field = getattr(words, kind)
    without = kind == "sessions" or (kind, field) == ("count", "all")
    return kind, "" if without else field, ""  # type: ignore[return-value]


def resolve_where(where: Mapping[str, Any], types: Mapping[str, FieldType], place: tuple[str, ...]) -> Condition:
    """The condition `where` of the member at `place`. Raises `BadDeclaration`."""
    try:
        return condition(where, types)
    except KeyError as error:
        require_known(str(error.args[0]), types, "field", *place, "where")
        raise
    except ValueError as error:
        raise BadDeclaration(str(error), *place, "where") from error


def duration_ms(text: str, *path: str) -> int:
    """The milliseconds of `1h`, `7d`. Raises `BadDeclaration` at `path`."""
    found = _DURATION.fullmatch(text)
    ms = int(found[1]) * UNITS[found[2]] if found else 0
    require(0 < ms <= MOST_WINDOW_MS, f"{text!r} is no duration: write 30m, 24h, 7d or 4w, up to 366d", *path)
    return ms


def is_window(text: str) -> bool:
    """Whether `text` is the label of a window, or `ever`."""
    return text == EVER or _DURATION.fullmatch(text) is not None


def require_name(name: str, noun: str, *path: str) -> None:
    """Raise `BadDeclaration` for a name that no measure or rule has."""
    valid = _NAME.fullmatch(name) and name not in _RESERVED
    require(valid, f"{name}: a {noun} has letters, digits and _, and is not called {' or '.join(_RESERVED)}", *path)


def require(condition: object, reason: str, *path: str) -> None:
    """Raise `BadDeclaration` for a false `condition`."""
    if not condition:
        raise BadDeclaration(reason, *path)


def require_known(name: str, known: Iterable[str], noun: str, *path: str) -> None:
    """Raise `BadDeclaration` for an unknown name, with the nearest known name."""
    names = list(known)
    if name not in names:
        nearest = get_close_matches(name, names, n=1, cutoff=0)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise BadDeclaration(f"there is no {noun} {name}{hint}", *path)


def longest_first(windows: Iterable[TrailingWindow]) -> tuple[TrailingWindow, ...]:
    """The windows without repeats."""
    by_label = {window.label: window for window in windows}
    return tuple(sorted(by_label.values(), key=lambda window: -window.ms))
