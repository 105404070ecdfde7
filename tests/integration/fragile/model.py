"""Values by key, counted; one value kills the worker that decodes it."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.errors import BadRecord
from streamstate.keys import TEXT
from streamstate.state.operations import Merge, Operation

TOPIC = "fragile-in"
COUNTS = "counts"
POISON, LATER = b"poison", b"later"
FIXED = "FIXED"
"""The environment variable with the path of a file: once the file exists, `LATER` can be decoded."""


def decode(_key: str, value: bytes | None) -> str:
    if value == POISON:
        os._exit(1)
    if not value or (value == LATER and not Path(os.environ[FIXED]).exists()):
        msg = "this release cannot use it"
        raise BadRecord(msg)
    return value.decode()


def fold(records: Sequence[Record[str, str]], _context: FoldContext) -> Iterable[Operation]:
    for record in records:
        yield Merge(COUNTS, add={record.value: 1})


APP = App("fragile", (Fold((Source(TOPIC, TEXT, decode),), fold),))
