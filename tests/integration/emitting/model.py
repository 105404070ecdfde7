"""Every output of a service: a derived record for each record, a total, and dead letters."""

from collections import Counter
from collections.abc import Iterable, Sequence

from streamstate.app import App, Derived, Effect, Emit, Fold, FoldContext, Record, Source, Totals
from streamstate.errors import BadRecord
from streamstate.keys import TEXT
from streamstate.state.operations import Merge

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


APP = App(
    "emitting",
    (Fold((Source(IN, TEXT, decode),), apply),),
    emits={OUT: Derived(TEXT, str)},
    totals=(Totals(TOTALS, "counts"),),
)
