"""The folds of a partition, as deletions of users and their expiry change them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from streamstate.app import App, Effect, Fold, FoldContext, Lookups, Record
from streamstate.state.operations import Read
from streamstate.state.store import TopicPartition
from streamstate.view import seen

Records = Sequence[Record[Any, Any]]
Erased = Mapping[TopicPartition, Mapping[bytes, int]]
"""By topic and partition, the keys of erased users, and the offset before which their records do not count."""


def personal(app: App, partition: int, erased: Erased, *, keep_seen: bool) -> Sequence[Fold]:
    """The folds of `app` without the records of erased users; with `keep_seen`, storing the time of each user."""
    folds = (keeping_seen(fold) if keep_seen and fold.users else fold for fold in app.folds)
    return [without_erased(fold, partition, erased) for fold in folds]


def without_erased(fold: Fold, partition: int, erased: Erased) -> Fold:
    """`fold` without the records of erased users; `shared` gets the records without the key."""
    bounds = {
        source.own_name: {source.key.decode(key): offset for key, offset in users.items()}
        for source in fold.sources
        if (users := erased.get((source.topic, partition)))
    }

    def is_erased(record: Record[Any, Any]) -> bool:
        return record.offset < bounds.get(record.topic, {}).get(record.key, 0)

    def kept(records: Records) -> Records:
        return [record for record in records if not is_erased(record)]

    def apply(records: Records, context: FoldContext) -> Iterable[Effect]:
        return fold.apply(left, context) if (left := kept(records)) else ()

    def shared(records: Records, context: FoldContext) -> Iterable[Effect]:
        nameless = [structs.replace(each, key=None) if is_erased(each) else each for each in records]
        try:
            return list(fold.shared(nameless, context))
        except Exception:
            # The dead letter of an erased user's record would hold the user's data. Other batches are halved.
            if len(records) == 1 and is_erased(records[0]):
                return ()
            raise

    def lookups(records: Records) -> Lookups:
        return fold.lookups(left) if (left := kept(records)) else {}

    def reads(records: Records) -> Iterable[Read]:
        return fold.reads(left) if (left := kept(records)) else ()

    return replace(fold, apply=apply, shared=shared, lookups=lookups, reads=reads) if bounds else fold


def keeping_seen(fold: Fold) -> Fold:
    """`fold`, storing the last stream time of each user."""

    def apply(records: Records, context: FoldContext) -> Iterable[Effect]:
        yield from fold.apply(records, context)
        yield seen({str(record.key): max(context.time, record.stream_time) for record in records})

    return replace(fold, apply=apply)
