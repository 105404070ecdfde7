"""What a play changes: a log of packed plays for each partition, from which every API instance builds its graph."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from services.events import LISTENING_EVENTS, ListeningEvent, decode_event
from services.recommendations.packing import Plays, pack
from services.recommendations.settings import WindowSettings
from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.keys import LONG
from streamstate.state.operations import Append, Operation

PLAYS = "plays"
"""The key of the log."""


def fold(records: Sequence[Record[int, ListeningEvent]], _context: FoldContext, *, window: int) -> Iterable[Operation]:
    """One entry for all of them; its number is the offset that follows them."""
    if records:
        ids = np.array([(record.key, *record.value.ids()) for record in records], np.int64)
        yield Append(PLAYS, records[-1].offset + 1, pack(Plays(records[0].stream_time, ids)), keep=window)


def app(settings: WindowSettings) -> App:
    """The use case over the newest records of each partition."""
    plays = Source(LISTENING_EVENTS, LONG, decode_event, requires_beginning=False)
    folds = (Fold((plays,), partial(fold, window=settings.window)),)
    return App("recommendations", folds, any_instance=True)
