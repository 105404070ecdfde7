"""The state: a log of packed plays for each partition, from which every API instance builds its graph."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from services.events import LISTENING_EVENTS, ListeningEvent
from services.recommendations.control import rules, shown
from services.recommendations.packing import Int64s, PlayBatch, pack, unpack
from services.recommendations.settings import WindowSettings
from streamstate.app import App, Fold, FoldContext, Record
from streamstate.functions import source
from streamstate.keys import LONG
from streamstate.state.operations import Append, Delete, Operation, Since
from streamstate.view import UserState

PLAYS = "plays"
"""The key of the log."""

ENTRY_PLAYS = 4_096
"""Plays of an entry in a rewritten log."""


def fold(records: Sequence[Record[int, ListeningEvent]], _context: FoldContext, *, window: int) -> Iterable[Operation]:
    """A single entry for all plays; its number is the offset after the last play."""
    if records:
        ids = np.array([(record.key, *record.value.ids()) for record in records], np.int64)
        yield Append(PLAYS, records[-1].offset + 1, pack(PlayBatch(records[0].stream_time, ids)), keep=window)


def without(users: Collection[int], values: Sequence[Any], *, window: int) -> Iterable[Operation]:
    """The log rewritten without the plays of `users`, because Redis cannot change entries. Small entries are merged."""
    (entries,) = values
    yield Delete(PLAYS)
    merged: list[Int64s] = []
    time, number = 0, 0
    for number, text in entries:
        plays = unpack(text)
        ids = plays.ids[~np.isin(plays.ids[:, 0], list(users))]
        if len(ids):
            time = time if merged else plays.time
            merged.append(ids)
        if sum(map(len, merged)) >= ENTRY_PLAYS:
            yield Append(PLAYS, number, pack(PlayBatch(time, np.concatenate(merged))), keep=window)
            merged = []
    if merged:
        yield Append(PLAYS, number, pack(PlayBatch(time, np.concatenate(merged))), keep=window)


def plays_of(entry: bytes) -> Sequence[Sequence[int]]:
    """The ids of the plays of an entry."""
    ids: Sequence[Sequence[int]] = unpack(entry).ids.tolist()
    return ids


def app(settings: WindowSettings) -> App:
    """The use case over the newest records of each partition."""
    plays = source(LISTENING_EVENTS, ListeningEvent, LONG, key_is="user_id", requires_beginning=False)
    log = UserState[int](lambda _user: (), [Since(PLAYS, 0, settings.window)], partial(without, window=settings.window))
    folds = [Fold((plays,), partial(fold, window=settings.window), users=log, entries=plays_of)]
    if settings.recommendation_rules:
        folds.append(rules.FOLD)
    if settings.shown:
        folds.append(shown.fold(settings.shown))
    return App("recommendations", tuple(folds), any_instance=True)
