"""The states of a fold's function during a batch."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, get_type_hints

from streamstate.app import Effect, Record, Rows
from streamstate.functions.state import Cell, Clock, Reader, Records, State


class _Table(dict[Any, None]):
    """A table without rows."""

    def __missing__(self, _key: Any) -> None:
        return None


class _NoRows(dict[str, _Table]):
    """Of any table no rows."""

    def __missing__(self, _table: str) -> _Table:
        return _Table()


NO_ROWS: Rows = _NoRows()
"""The rows for a record of a deleted user: all are missing."""


def parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of the parameters of `function`, in order; `Any` where there is none.

    Raises `TypeError` for the name of a local class in quotes, or of an import for type checkers only.
    """
    try:
        annotations = get_type_hints(function)
    except NameError as error:
        msg = (
            f"{function.__name__}: the annotation {error.name} is unknown in the module; annotate with the class, "
            "without quotes and without `from __future__ import annotations`"
        )
        raise TypeError(msg) from error
    return {name: annotations.get(name, Any) for name in signature(function).parameters}


def is_state(kind: Any) -> bool:
    """Whether an annotation is a `State`."""
    return isinstance(kind, type) and issubclass(kind, State)


def by_key(records: Records) -> Mapping[Any, Records]:
    """The records of each key, in order."""
    grouped: defaultdict[Any, list[Record[Any, Any]]] = defaultdict(list)
    for record in records:
        grouped[record.key].append(record)
    return grouped


class Batch:
    """The arguments of a function for the records of a batch.

    kinds: the annotations of the arguments: states, or `Rows`. records: the records whose state is loaded.
    """

    def __init__(self, kinds: Sequence[Any], records: Records, read: Reader, rows: Rows = NO_ROWS) -> None:
        self.clock = Clock()
        self._kinds = kinds
        self._records = by_key(records)
        self._read = read
        self._rows = rows
        self._shared = {kind: kind(None, read, self.clock) for kind in kinds if is_state(kind) and not kind.source}
        self._arguments: dict[Any, Sequence[Any]] = {}

    def arguments(self, key: Any) -> Sequence[Any]:
        found = self._arguments.get(key)
        if found is None:
            found = self._arguments[key] = self.fresh(key)
        return found

    def fresh(self, key: Any = None) -> Sequence[Any]:
        """New states of `key`, whose writes `effects` leaves out; the states of the partition stay the same."""
        return [self._argument(kind, key) for kind in self._kinds]

    def _argument(self, kind: Any, key: Any) -> Any:
        if not is_state(kind):
            return self._rows
        return self._shared.get(kind) or kind(key, self._read, self.clock, self._records.get(key, ()))

    def effects(self) -> Iterable[Effect]:
        """The recorded writes."""
        yield from self.shared_effects()
        for arguments in self._arguments.values():
            for state in arguments:
                if isinstance(state, State) and state.source:
                    yield from state.effects()

    def shared_effects(self) -> Iterable[Effect]:
        """The recorded writes to the states of the partition."""
        for state in self._shared.values():
            yield from state.effects()


def cells_of(states: Iterable[type[State]]) -> Sequence[Cell]:
    return [cell for state in states for cell in state.cells]
