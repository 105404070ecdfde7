"""Two apps for the model of the commit protocol, and the state that each must have, counted the plainest way."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamstate.app import App, Count, Effect, Emit, Fold, FoldContext, Record, Source
from streamstate.errors import BadRecord
from streamstate.keys import TEXT
from streamstate.processing.decode import RawRecord
from streamstate.state.operations import (
    Append,
    Fields,
    IncrementScores,
    Merge,
    Newest,
    PushRecent,
    Put,
    Read,
    Top,
    Value,
)

KEYS = ("a", "b", "c")
REGIONS = ("north", "south")
KEEP = 3

WORDS = "words"
"""The topic and the count of a later release."""

BROKEN = Append("broken", 1, None, 1)  # type: ignore[arg-type]
"""An operation of a defective fold: no store can apply it."""

Tagged = tuple[str, RawRecord]
"""A topic and a record of it."""


@dataclass(frozen=True)
class Case:
    """An app, reads of its state, and the required answers after `records`, in their order."""

    app: App
    reads: Sequence[Read]
    recount: Callable[[Sequence[Tagged]], list[Any]]

    @property
    def later(self) -> "Case":
        """The next release, which reads a topic more."""
        app = replace(self.app, folds=(*self.app.folds, Fold((Source(WORDS, TEXT, decode_number),), words)))
        return Case(app, [*self.reads, Top(WORDS, 9)], self._recount_later)

    def _recount_later(self, records: Sequence[Tagged]) -> list[Any]:
        own, later = ([tagged for tagged in records if (tagged[0] == WORDS) is is_word] for is_word in (False, True))
        return [*self.recount(own), recount_words(later)]


def decode_number(_key: str, value: bytes | None) -> int:
    if value is None or not value.isdigit():
        msg = "no number"
        raise BadRecord(msg)
    return int(value)


def decode_region(_key: str, value: bytes | None) -> str:
    if value is None or value.decode() not in REGIONS:
        msg = "no region"
        raise BadRecord(msg)
    return value.decode()


def usable(topic: str, key: bytes | None, value: bytes | None) -> bool:
    if not key or not value:
        return False
    return value in (b"north", b"south") if topic == "regions" else value.isdigit()


def words(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Effect]:
    for record in records:
        yield IncrementScores(WORDS, {record.key: record.value})
        yield Count(WORDS)


def recount_words(records: Sequence[Tagged]) -> list[tuple[str, int]]:
    sums: Counter[str] = Counter()
    for topic, (_, _, key, value) in records:
        if key and value and usable(topic, key, value):
            sums[key.decode()] += int(value)
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def tally(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Effect]:
    """An operation of each kind; none may happen twice."""
    for record in records:
        yield Merge(record.key, add={"count": 1, "sum": record.value}, least={"least": record.value})
        yield IncrementScores("ranking", {record.key: record.value})
        yield PushRecent("newest", {str(record.offset): record.timestamp}, KEEP)
        yield Put("last", f"{record.key} {record.value}")
        yield Emit("out", record.key.encode(), b"", record)


def recount_tally(records: Sequence[Tagged]) -> list[Any]:
    good = [(o, t, k.decode(), int(v)) for topic, (o, t, k, v) in records if k and v and usable(topic, k, v)]
    fields = []
    for key in KEYS:
        values = [value for *_, k, value in good if k == key]
        fields.append({"count": len(values), "sum": sum(values), "least": min(values)} if values else {})
    sums = {key: one["sum"] for key, one in zip(KEYS, fields, strict=True) if one}
    newest = sorted(((t, str(o)) for o, t, *_ in good), key=lambda pair: (pair[0], pair[1].encode()), reverse=True)
    return [
        *fields,
        sorted(sums.items(), key=lambda item: (-item[1], item[0])),
        [(member, time) for time, member in newest[:KEEP]],
        " ".join(map(str, good[-1][2:])) if good else None,
    ]


def join(records: Sequence[Record[str, Any]], context: FoldContext) -> Iterable[Effect]:
    """Clicks by the region of the user at the time of the click."""
    regions = {read.key: value for read, value in context.values.items() if value is not None}
    for record in records:
        if record.topic == "regions":
            regions[record.key] = record.value
            yield Put(record.key, record.value)
        else:
            yield IncrementScores("clicks", {regions.get(record.key, "nowhere"): record.value})
            yield Emit("out", record.key.encode(), b"", record)


def recount_join(records: Sequence[Tagged]) -> list[Any]:
    regions: dict[str, str] = {}
    clicks: dict[str, int] = {}
    for topic, (_, _, key, value) in records:
        if key is None or value is None or not usable(topic, key, value):
            continue
        if topic == "regions":
            regions[key.decode()] = value.decode()
        else:
            region = regions.get(key.decode(), "nowhere")
            clicks[region] = clicks.get(region, 0) + int(value)
    ranked = sorted(clicks.items(), key=lambda item: (-item[1], item[0]))
    return [ranked, *(regions.get(key) for key in KEYS)]


TALLY = Case(
    App("tally", (Fold((Source("numbers", TEXT, decode_number),), tally),)),
    [*map(Fields, KEYS), Top("ranking", 9), Newest("newest", 9), Value("last")],
    recount_tally,
)
JOIN = Case(
    App(
        "join",
        (
            Fold(
                (Source("regions", TEXT, decode_region), Source("clicks", TEXT, decode_number)),
                join,
                reads=lambda records: {Value(record.key): None for record in records},
            ),
        ),
    ),
    [Top("clicks", 9), *map(Value, KEYS)],
    recount_join,
)
