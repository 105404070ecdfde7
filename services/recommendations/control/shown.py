"""Items that a user was shown: the newest of each user."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from services.events import Id
from services.recommendations.settings import MOST_SHOWN
from streamstate.app import Fold, FoldContext, Record, Source
from streamstate.formats.typed import json_decoder
from streamstate.keys import LONG
from streamstate.state.operations import Newest, Operation, PushRecent
from streamstate.view import UserKey, UserState

SHOWN = "shown"


class ShownItem(msgspec.Struct):
    """A record of the topic, whose key is the id of the user."""

    kind: Literal["artists", "albums", "tracks"]
    id: Id


_decode = json_decoder(ShownItem)


def decode(_user: int, value: bytes | None) -> ShownItem:
    """The item of a record; raises `BadRecord` or `msgspec.ValidationError` for an invalid record."""
    return _decode(value)


def place(user: int) -> Newest:
    """The items shown to the user, with the stream times of their records."""
    return Newest(f"{SHOWN}:{user}", MOST_SHOWN)


def _places(user: int) -> Iterator[UserKey]:
    yield UserKey(place(user))


def fold(keep: int) -> Fold:
    """The fold of the topic, which keeps so many items of a user."""

    def apply(records: Sequence[Record[int, ShownItem]], _context: FoldContext) -> Iterable[Operation]:
        by_user: dict[int, dict[str, int]] = {}
        for record in records:
            # The stream time never falls, so any division into batches keeps the same items.
            by_user.setdefault(record.key, {})[f"{record.value.kind}:{record.value.id}"] = record.stream_time
        for user, times in by_user.items():
            yield PushRecent(place(user).key, times, keep)

    source = Source(SHOWN, LONG, decode, requires_beginning=False)
    return Fold((source,), apply, settings={"keep": keep}, users=UserState(_places))
