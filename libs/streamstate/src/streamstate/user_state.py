"""What a fold keeps of a user: what an erasure removes, and an export tells."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from streamstate.state.operations import Between, Delete, DeleteTimeline, Insert, Operation, Read, Remove

K = TypeVar("K")

MOST_MEMBERS = 10_000
"""So many members of a place are exported."""

SEEN, USERS = "last seen", "users"
"""Family and key of the timeline of users, by the stream time at which each was seen last."""


def seen(times: Mapping[str, int]) -> Operation:
    """The operation that keeps when users were seen (milliseconds of stream time)."""
    return Insert(SEEN, USERS, dict(times))


def not_seen_since(time: int, n: int) -> Read:
    """The read of the first `n` users who were not seen at `time` or later: [(user, milliseconds)]."""
    return Between(f"{SEEN}:{USERS}", 0, time, n)


class UserKey(NamedTuple):
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

    places: Callable[[K], Iterable[UserKey]]
    reads: Sequence[Read] = ()
    rewrite: Callable[[Collection[K], Sequence[Any]], Iterable[Operation]] = _nothing

    def forget(self, users: Collection[K], values: Sequence[Any]) -> Iterable[Operation]:
        """The operations after which the state names none of `users`; `values` answer `reads`."""
        for user in users:
            yield from (place.deletion for place in self.places(user))
            yield Remove(SEEN, USERS, str(user))
        yield from self.rewrite(users, values)
