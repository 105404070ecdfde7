"""How often each user has played, counted from the plays with names."""

from collections import Counter
from collections.abc import Iterable, Sequence

from services.names.model import ENRICHED
from streamstate.app import App, Effect, Fold, FoldContext, Record, Source
from streamstate.keys import LONG
from streamstate.operators.repeats import without_repeats
from streamstate.state.operations import Merge


def decode(_user: int, value: bytes | None) -> bytes:
    return value or b""


def apply(records: Sequence[Record[int, bytes]], _context: FoldContext) -> Iterable[Effect]:
    yield Merge("plays", add=Counter(str(record.key) for record in records))


APP = App("chained", (without_repeats(Fold((Source(ENRICHED, LONG, decode),), apply)),))
