"""What a fold keeps of a user: what an erasure removes, and an export tells."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from streamstate.state.operations import Delete, DeleteTimeline, Operation, Read

K = TypeVar("K")

MOST_MEMBERS = 10_000
"""So many members of a place are exported."""


class Place(NamedTuple):
    """The state key that `read` reads, at most `MOST_MEMBERS` of it. It is a timeline where `family` is not empty."""

    read: Read
    family: str = ""

    @property
    def deletion(self) -> Operation:
        """The operation that empties it."""
        key = self.read.key
        return DeleteTimeline(self.family, key.removeprefix(f"{self.family}:")) if self.family else Delete(key)


def _nothing(_users: Collection[Any], _values: Sequence[Any]) -> Iterable[Operation]:
    return ()


@dataclass(frozen=True)
class UserState(Generic[K]):
    """Declares that the keys of a fold's topics are users, and where the state names one.

    places: a user → the state keys that are the user's alone.
    reads: the state keys that several users share; `rewrite` gets the users who are erased and what these reads answer,
        and makes the operations after which none of these keys names one of them.
    """

    places: Callable[[K], Iterable[Place]]
    reads: Sequence[Read] = ()
    rewrite: Callable[[Collection[K], Sequence[Any]], Iterable[Operation]] = _nothing

    def forget(self, users: Collection[K], values: Sequence[Any]) -> Iterable[Operation]:
        """The operations after which the state names none of `users`; `values` answer `reads`."""
        for user in users:
            yield from (place.deletion for place in self.places(user))
        yield from self.rewrite(users, values)
