"""The declared results for a fold, and an error for undeclared access."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from streamstate.app import Fold, Rows
from streamstate.errors import NotRequested
from streamstate.state.operations import Read

K = TypeVar("K")
V = TypeVar("V")


def declared(
    fold: Fold, lookups: Mapping[str, Collection[Any]], rows: Rows, reads: Iterable[Read], values: Mapping[Read, Any]
) -> tuple[Rows, Mapping[Read, Any]]:
    """The results declared by `fold` in one partition, out of all folds' results (`rows`, `values`)."""
    tables = {
        table: _Requested({key: rows[table][key] for key in keys}, fold, "lookups", f"a row of {table}")
        for table, keys in lookups.items()
    }
    own = {read: values[read] for read in reads}
    return _Requested(tables, fold, "lookups", "a table"), _Requested(own, fold, "reads", "the state")


class _Requested(Mapping[K, V]):
    """Raises `NotRequested` for a missing key, in `get` as well. `noun` names the kind of results."""

    def __init__(self, answers: Mapping[K, V], fold: Fold, function: str, noun: str) -> None:
        self._answers = answers
        self._fold = fold
        self._function = function
        self._noun = noun

    def __getitem__(self, key: K) -> V:
        if key not in self._answers:
            fold = f"the fold of {' and '.join(self._fold.topics)}"
            noun = _name(key) if isinstance(key, Read) else self._noun
            raise NotRequested(f"{fold} looks at {noun}, which it did not ask for; add it to its `{self._function}`")
        return self._answers[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


def _name(read: Read) -> str:
    """The state key up to its first colon: the rest may be a user's id."""
    return f"{type(read).__name__}({read.key.partition(':')[0]}…)"
