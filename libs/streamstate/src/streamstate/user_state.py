"""The personal data in a fold's state: removed by an erasure, returned by an export."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from streamstate.state.operations import Between, Delete, DeleteTimeline, Insert, Operation, Read, Remove

K = TypeVar("K")

MOST_MEMBERS = 10_000
"""So many members of a place are exported."""

SEEN, USERS = "last seen", "users"
"""Family and key of the timeline of users by the stream time of their last record."""


def seen(times: Mapping[str, int]) -> Operation:
    """The operation that stores the last stream time (milliseconds) of users."""
    return Insert(SEEN, USERS, dict(times))


def not_seen_since(time: int, n: int) -> Read:
    """The read of the first `n` users without a record at `time` or later: [(user, milliseconds)]."""
    return Between(f"{SEEN}:{USERS}", 0, time, n)


class UserKey(NamedTuple):
    """The state key of the read `read`, limited to `MOST_MEMBERS` members. With a `family`, the key is a timeline."""

    read: Read
    family: str = ""

    @property
    def deletion(self) -> Operation:
        """The operation that deletes the key."""
        key = self.read.key
        return DeleteTimeline(self.family, key.removeprefix(f"{self.family}:")) if self.family else Delete(key)


def _nothing(_users: Collection[Any], _values: Sequence[Any]) -> Iterable[Operation]:
    return ()


@dataclass(frozen=True)
class UserState(Generic[K]):
    """Declares that the keys of a fold's topics are users, and the state keys that name a user.

    places: a user → the state keys of the user alone.
    reads: the state keys shared by several users; `rewrite(users, values)` gets the erased users and the values of
        these reads, and returns the operations that remove the users from the shared keys.
    """

    places: Callable[[K], Iterable[UserKey]]
    reads: Sequence[Read] = ()
    rewrite: Callable[[Collection[K], Sequence[Any]], Iterable[Operation]] = _nothing

    def forget(self, users: Collection[K], values: Sequence[Any]) -> Iterable[Operation]:
        """The operations that remove `users` from the state; `values` are the results of `reads`."""
        for user in users:
            yield from (place.deletion for place in self.places(user))
            yield Remove(SEEN, USERS, str(user))
        yield from self.rewrite(users, values)
