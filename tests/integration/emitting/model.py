"""Every output of a service: a derived record for each record, a total, dead letters, and an answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from streamstate.app import App, Derived, Effect, Emit, Fold, FoldContext, Record, Source, Totals
from streamstate.errors import BadRecord
from streamstate.keys import TEXT
from streamstate.state.operations import Fields, Merge
from streamstate.view import View

IN, OUT, TOTALS = "emitting-in", "emitting-out", "emitting-totals"


def decode(_key: str, value: bytes | None) -> str:
    if value != b"fine":
        msg = "the value must be fine"
        raise BadRecord(msg)
    return "fine"


def apply(records: Sequence[Record[str, str]], _context: FoldContext) -> Iterable[Effect]:
    yield Merge("counts", add=Counter(record.key for record in records))
    for record in records:
        yield Emit(OUT, TEXT.encode(record.key), b"again", record)


class Count(msgspec.Struct):
    """The number of records of a key."""

    count: int


def count(key: str, values: Sequence[Any]) -> Count | None:
    return Count(values[0][key]) if key in values[0] else None


PATH = "/v1/emitted/<key>"
COUNTS = View("emitted", PATH, "The records of a key", IN, TEXT, lambda _key: [Fields("counts")], count, Count(3))

APP = App(
    "emitting",
    (Fold((Source(IN, TEXT, decode),), apply),),
    (COUNTS,),
    emits={OUT: Derived(TEXT, str)},
    totals=(Totals(TOTALS, "counts"),),
)
