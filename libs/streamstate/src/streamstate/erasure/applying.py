"""The deletions applied to a claimed partition, and its folds without the records of erased users."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from streamstate.app import App, Effect, Fold, FoldContext, Lookups, Record
from streamstate.erasure.deletions import Asked, Bound, DeletionRecord
from streamstate.errors import BadKey
from streamstate.operators.repeats import without_repeats
from streamstate.state.operations import Operation, Read
from streamstate.state.store import DELETIONS, Claim, Commit, OffsetAdvance, Origin, Store, TopicPartition
from streamstate.view import UserState, seen

TOGETHER = 200
"""Users forgotten in one commit."""


@dataclass(frozen=True)
class Step:
    """One commit of deletions, and its receipts, published first so that a later build has the bounds of this state.

    applied: the offset before which the commit has applied all requests.
    """

    receipts: Sequence[DeletionRecord]
    commit: Commit
    applied: int


def steps(
    app: App, store: Store, claim: Claim, origins: Mapping[str, Origin], pending: Sequence[Asked]
) -> Iterator[Step]:
    """The steps that apply `pending`, the deletions of one partition in the order of their requests.

    `claim` is the last claim, so no other writer commits meanwhile. The state forgets a user's records up to the
    offsets of the claim, and later records up to the bounds are left out on arrival.
    """
    applied = claim.deletions
    for start in range(0, len(pending), TOGETHER):
        asked = pending[start : start + TOGETHER]
        bounds = {each.user: _bounds(app, claim, origins, each) for each in asked}
        receipts = [
            DeletionRecord(each.user, app.name, claim.partition, given, each.request, dict(each.inputs))
            for each in asked
            if (given := bounds[each.user])
            and (each.receipt is None or (each.receipt.bounds, each.receipt.inputs) != (given, each.inputs))
        ]
        following = asked[-1].request + 1
        advances = [OffsetAdvance(topic, at, at, claim.times.get(topic, 0)) for topic, at in claim.positions.items()]
        operations = [
            operation
            for fold, users in app.user_folds
            if any(topic in claim.positions for topic in fold.topics)
            for operation in _forget(fold, users, store, claim.partition, list(bounds.values()))
        ]
        advances.append(OffsetAdvance(DELETIONS, applied, following))
        yield Step(receipts, Commit(claim, advances, operations), following)
        applied = following


def pending(asked: Sequence[Asked], claim: Claim) -> list[Asked]:
    """The deletions that the state has not applied."""
    return [each for each in asked if each.request >= (claim.deletions or 0)]


def expiries(app: App, claim: Claim, origins: Mapping[str, Origin], users: Iterable[str]) -> Iterator[DeletionRecord]:
    """The requests that delete `users`, with all their records in the state, from the partition of `claim`."""
    for user in users:
        bounds = {}
        for source in app.user_sources:
            with suppress(BadKey):
                key, origin = source.key.parse(user), origins[source.topic]
                if source.partition(key, origin.partitions) == claim.partition:
                    end = claim.positions.get(source.topic, 0)
                    bounds[source.topic] = Bound(origin.id, source.key.encode(key), end)
        yield DeletionRecord(user, app.name, claim.partition, bounds)


def _bounds(app: App, claim: Claim, origins: Mapping[str, Origin], asked: Asked) -> dict[str, Bound]:
    """The bounds of the records to leave out: at least up to the claim's offsets, in all topics of the same fold."""
    bounds = {}
    for fold, _ in app.user_folds:
        key = _key(fold, asked.bounds)
        if key is None and asked.inputs.keys() & app.rekeyed:
            key = _key_here(fold, asked.user, claim.partition, origins)
        for source in fold.sources if key is not None else ():
            given = asked.bounds.get(source.topic)
            offset = max(given.offset if given else 0, claim.positions.get(source.topic, 0))
            bounds[source.topic] = Bound(origins[source.topic].id, source.key.encode(key), offset)
    return bounds


def _key(fold: Fold, bounds: Mapping[str, Bound]) -> object:
    """The user as a key of the fold; None if `bounds` has no topic of the fold."""
    keys = (source.key.decode(bounds[source.topic].key) for source in fold.sources if source.topic in bounds)
    return next(keys, None)


def _key_here(fold: Fold, user: str, partition: int, origins: Mapping[str, Origin]) -> object:
    """The user as a key of the fold; None if the user's records are in another partition."""
    source = fold.sources[0]
    with suppress(BadKey):
        key = source.key.parse(user)
        return key if source.partition(key, origins[source.topic].partitions) == partition else None
    return None


def _forget(
    fold: Fold, users: UserState[Any], store: Store, partition: int, bounds: Sequence[Mapping[str, Bound]]
) -> Iterator[Operation]:
    if keys := [key for each in bounds if (key := _key(fold, each)) is not None]:
        values = store.read({partition: users.reads})[partition].values if users.reads else ()
        yield from users.forget(keys, values)


Records = Sequence[Record[Any, Any]]
Erased = Mapping[TopicPartition, Mapping[bytes, int]]
"""By topic and partition, the keys of erased users, and the offset before which their records do not count.

By a topic's id and partition, the same for the records that markers name."""


def personal(app: App, partition: int, erased: Erased, *, keep_seen: bool) -> Sequence[Fold]:
    """The folds of `app` without the records of erased users; with `keep_seen`, storing the time of each user."""
    return [_personal(fold, partition, erased, keep_seen=keep_seen) for fold in app.folds]


def _personal(fold: Fold, partition: int, erased: Erased, *, keep_seen: bool) -> Fold:
    if fold.once:
        # The markers of erased records count: else a repeat behind the erasure would be a first record.
        inner = replace(fold.once, sources=fold.sources)
        return without_repeats(_personal(inner, partition, erased, keep_seen=keep_seen))
    seen = keeping_seen(fold) if keep_seen and fold.users else fold
    return without_erased(seen, partition, erased)


def without_erased(fold: Fold, partition: int, erased: Erased) -> Fold:
    """`fold` without the records of erased users; `shared` gets the records without the key."""
    is_erased = _erased_here(fold, partition, erased)
    if is_erased is None:
        return fold

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

    return replace(fold, apply=apply, shared=shared, lookups=lookups, reads=reads)


def _erased_here(fold: Fold, partition: int, erased: Erased) -> Callable[[Record[Any, Any]], bool] | None:
    """Whether a record of `fold` is of an erased user; None where none is."""
    sources = {source.own_name: source for source in fold.sources}
    bounds = {
        name: users if fold.rekeys else {source.key.decode(key): offset for key, offset in users.items()}
        for name, source in sources.items()
        if (users := erased.get((source.topic, partition)))
    }

    def is_erased(record: Record[Any, Any]) -> bool:
        key: Any = getattr(record.value, "key", None) if fold.rekeys else record.key
        if record.offset < bounds.get(record.topic, {}).get(key, 0):
            return True
        if record.marker is None or not (causes := erased.get(record.marker[:2])):
            return False
        return record.marker.offset < causes.get(sources[record.topic].key.encode(record.key), 0)

    marked = any(source.marked for source in fold.sources)
    return is_erased if bounds or (marked and erased) else None


def keeping_seen(fold: Fold) -> Fold:
    """`fold`, storing the last stream time of each user."""

    def apply(records: Records, context: FoldContext) -> Iterable[Effect]:
        yield from fold.apply(records, context)
        yield seen({str(record.key): max(context.time, record.stream_time) for record in records})

    return replace(fold, apply=apply)
