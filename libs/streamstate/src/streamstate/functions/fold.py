"""Folds as functions of a record and of states, whose writes are recorded."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from streamstate.app import Effect, Fold, FoldContext, Lookups, Record, Rows, Setting, Source
from streamstate.errors import NotRequested
from streamstate.functions.batch import Batch, by_key, cells_of, is_state, parameters
from streamstate.functions.state import Reader, Records, empty
from streamstate.operators.interval_join import Pair, paired
from streamstate.operators.stream_time import clock
from streamstate.state.operations import Operation, Read
from streamstate.view import UserKey, UserState

Function = Callable[..., Iterable[Effect] | None]


def fold(
    *sources: Source[Any, Any],
    version: int = 1,
    lookups: Callable[[Sequence[Record[Any, Any]]], Lookups] = lambda _records: {},
    settings: Mapping[str, Setting] | None = None,
) -> Callable[[Function], Fold]:
    """Makes a `Fold` over `sources` of a function, called for each record in order.

    The first parameter is the record. A further parameter annotated with a `State` is the state of the record's key, or
    of the partition; annotated with `Rows`, the rows of the `lookups`. The function may yield records of an `Output`.
    For the state of the partition, the function gets the records of deleted users too, with None as the key and as
    each row; its other effects are dropped. As of a `Fold`, any division of the records into batches must give the same
    state.

    settings: values by name, besides the arguments of the cells, on which the state depends.
    """

    def decorate(function: Function) -> Fold:
        of = FunctionFold(function, sources)
        users = UserState(of.places, rewrite=of.forget) if any(state.users for state in of.states) else None
        given = {**(settings or {}), **of.settings}
        return Fold(sources, of.apply, lookups, of.reads, version, given, users, of.shared, of.keys)

    return decorate


def fold_pairs(
    left: Source[Any, str], right: Source[Any, str], within: int, grace: int, *, version: int = 1
) -> Callable[[Function], Fold]:
    """Makes a `Fold` over the pairs of `operators.interval_join.paired` of a function, called for each pair in order.

    The first parameter is the `Pair`, the others are as of `fold`; their states load nothing, and are not of users.
    """

    def decorate(function: Function) -> Fold:
        of = FunctionFold(function, (left, right))
        if any(state.users for state in of.states) or any(cell.loading for cell in of.cells):
            msg = f"{function.__name__}: a fold of pairs keeps no state of users, and no windows or loaded texts"
            raise TypeError(msg)
        topics = left.own_name, right.own_name
        if taken := set(topics).intersection(of.keys):
            msg = f"{function.__name__}: a member is kept as {min(taken)}, as are the records; call it otherwise"
            raise TypeError(msg)
        return replace(paired(left, right, within, grace, of.pairs), version=version, keys=(*topics, *of.keys))

    return decorate


class FunctionFold:
    """The members of a `Fold` made of a function."""

    def __init__(self, function: Function, sources: Sequence[Source[Any, Any]]) -> None:
        self._function = function
        _, *arguments = parameters(function).items()
        self._kinds = [kind for _, kind in arguments]
        self.states = [kind for kind in self._kinds if is_state(kind)]
        self.cells = cells_of(self.states)
        self._loading = [cell for cell in self.cells if cell.loading]
        for name, kind in arguments:
            if not is_state(kind) and kind != Rows:
                msg = f"{function.__name__}: {name} is no State and no Rows; annotate it with one of them"
                raise TypeError(msg)
        for state in self.states:
            if self.states.count(state) > 1:
                msg = f"{function.__name__}: two parameters are the state {state.__name__}; name it once"
                raise TypeError(msg)
            if state.source and state.source not in sources:
                msg = f"{state.__name__} is by the topic {state.source.topic}; add it to the topics of the fold"
                raise TypeError(msg)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of the state keys. Raises `TypeError` for two cells with the same state keys."""
        cells: dict[str, Any] = {}
        for cell in self.cells:
            name, owner = cell.place("").removesuffix(":"), cell.state if cell.shares else cell
            if cells.setdefault(name, owner) is not owner:
                msg = f"{self._function.__name__}: two members are kept as {name}; call one of them otherwise"
                raise TypeError(msg)
        return tuple(dict.fromkeys(name.partition(":")[0] for name in cells))

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings of all cells, and the longest grace."""
        settings = {(cell.name, name): value for cell in self.cells for name, value in cell.settings.items()}
        graces = [value for (_, name), value in settings.items() if name == "grace_ms"]
        grace = {"grace_ms": max(graces)} if graces else {}
        return {f"{cell}.{name}": value for (cell, name), value in settings.items()} | grace

    def places(self, user: Any) -> Iterable[UserKey]:
        cells = cells_of(state for state in self.states if state.users)
        return {place.read.key: place for cell in cells for place in cell.places(user)}.values()

    def forget(self, users: Collection[Any], _values: Sequence[Any]) -> Iterable[Operation]:
        """The removal of deleted users from the states of partitions."""
        for cell in cells_of(state for state in self.states if state.users):
            yield from cell.forgotten(users)

    def reads(self, records: Records) -> Iterable[Read]:
        """The reads of loading cells."""
        if self._loading:
            for key, of_key in by_key(records).items():
                for cell in self._loading:
                    yield from cell.loads(key, of_key)

    def apply(self, records: Records, context: FoldContext) -> Iterable[Effect]:
        """The effects of all records, in order."""
        # Only loading cells use the records of a key: without them, the records are not grouped.
        batch = Batch(self._kinds, records if self._loading else (), _reader(context), context.rows)
        for record, now in zip(records, clock(records, context), strict=True):
            batch.clock.now = now
            yield from self._function(record, *batch.arguments(record.key)) or ()
        yield from batch.effects()
        yield from self._expiry(batch.clock.now)

    def shared(self, records: Records, context: FoldContext) -> Iterable[Effect]:
        """The writes of deleted users' records to states of the partition, and the expiry at their time."""
        if all(record.key is not None for record in records):
            return
        if any(not state.source for state in self.states):
            batch = Batch(self._kinds, (), empty)
            for record, now in zip(records, clock(records, context), strict=True):
                batch.clock.now = now
                # The records that the function yields would name a user.
                if record.key is None:
                    for _ in self._function(record, *batch.fresh()) or ():
                        pass
            yield from batch.shared_effects()
        yield from self._expiry(max(clock(records, context)))

    def pairs(self, pairs: Sequence[Pair]) -> Iterable[Effect]:
        """The effects of all pairs, in order."""
        batch = Batch(self._kinds, (), _reader(FoldContext()))
        for pair in pairs:
            yield from self._function(pair, *batch.arguments(pair.key)) or ()
        yield from batch.effects()

    def _expiry(self, now: int) -> Iterable[Effect]:
        for cell in self.cells:
            yield from cell.expiry(now)


def _reader(context: FoldContext) -> Reader:
    def read(read: Read) -> Any:
        try:
            return context.values[read]
        except (KeyError, NotRequested):
            cell = read.key.partition(":")[0]
            msg = f"a fold reads texts only that are `Text(loaded=True)`, and windows by `add`; found a read of {cell}"
            raise NotRequested(msg) from None

    return read
