"""What a fold asked for, and an error for anything else that it looks at."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from streamstate.app import Fold, Rows
from streamstate.errors import NotRequested
from streamstate.state.reads import Read

K = TypeVar("K")
V = TypeVar("V")


def requested(
    fold: Fold, lookups: Mapping[str, Collection[Any]], rows: Rows, reads: Iterable[Read], values: Mapping[Read, Any]
) -> tuple[Rows, Mapping[Read, Any]]:
    """Of the answers to all folds of a batch (`rows`, `values`), those that `fold` asked for in one partition."""

    def mapping(answers: Mapping[K, V], function: str, name: Callable[[K], str]) -> Mapping[K, V]:
        return _Requested(answers, fold.topics, function, name)

    def rows_of(table: str) -> Mapping[Any, str | None]:
        return mapping({key: rows[table][key] for key in lookups[table]}, "lookups", lambda _key: f"a row of {table}")

    return (
        mapping({table: rows_of(table) for table in lookups}, "lookups", str),
        mapping({read: values[read] for read in reads}, "reads", _name),
    )


class _Requested(Mapping[K, V]):
    """Raises `NotRequested` for a key that is missing, in `get` as well."""

    def __init__(self, answers: Mapping[K, V], topics: Iterable[str], function: str, name: Callable[[K], str]) -> None:
        self._answers = answers
        self._topics = topics
        self._function = function
        self._name = name

    def __getitem__(self, key: K) -> V:
        try:
            return self._answers[key]
        except KeyError:
            fold = f"the fold of {' and '.join(self._topics)}"
            msg = f"{fold} looks at {self._name(key)}, which it did not ask for; add it to its `{self._function}`"
            raise NotRequested(msg) from None

    def __iter__(self) -> Iterator[K]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


def _name(read: Read) -> str:
    """Without what follows the first colon of the state key, which may be a user's id."""
    family, colon, _ = read.key.partition(":")
    return f"{type(read).__name__}({family}{colon and ':…'})"
