"""Values by key, counted slowly."""

from collections.abc import Iterable, Sequence

from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.keys import TEXT
from streamstate.state.operations import Merge, Operation
from tests.waiting import pause

TOPIC = "slow-in"
BATCH_S = 1.0


def decode(_key: str, value: bytes | None) -> str:
    return (value or b"").decode()


def fold(records: Sequence[Record[str, str]], _context: FoldContext) -> Iterable[Operation]:
    pause(BATCH_S)
    yield Merge("counts", add={record.value: 1 for record in records})


APP = App("slow", (Fold((Source(TOPIC, TEXT, decode),), fold),))
