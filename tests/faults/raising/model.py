"""The fold of metrics, which fails at `UNLUCKY`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from services.events import ListeningEvent
from services.metrics import model
from streamstate.app import Effect, FoldContext, Record

UNLUCKY = 4_711
(METRICS,) = model.APP.folds


def fold(records: Sequence[Record[int, ListeningEvent]], context: FoldContext) -> Iterable[Effect]:
    if any(record.value.artist_id == UNLUCKY for record in records):
        msg = "this artist cannot be folded"
        raise ValueError(msg)
    return METRICS.apply(records, context)


APP = replace(model.APP, name="raising", folds=(replace(METRICS, apply=fold),))
