"""Operations of folds, and reads of views.

The classes of operations are also the wire format: an array of tag and fields, unpacked by a server-side script.
"""

from collections.abc import Iterable

import msgspec

DAY_MS = 86_400_000

MOST = 2**53
"""The greatest size of a stored number: Redis' scores and Lua's numbers are exact up to it."""

BEST = 64
"""The members of a large compact ranking that are kept in order."""


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """Set `key` to one value."""

    key: str
    value: str


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Delete `key` of any type; a compact ranking only with `compact`."""

    key: str
    compact: bool = False


class Groups(msgspec.Struct, frozen=True, array_like=True):
    """Fields `<prefix>:<text>` of a hash, of which there are at most `limit`.

    texts: of the fields of an operation, in the order of their first records.
    """

    limit: int
    texts: list[str]


class Merge(msgspec.Struct, frozen=True, array_like=True, tag="merge"):
    """Merge whole numbers (up to 2^53) into the fields of `key`: add to, keep the least of, keep the most of.

    groups: by prefix. The first texts have their fields; the numbers of further texts go into the field `<prefix>`. The
        field `<prefix>#` is the number of texts. A mean has its number of values in `#<prefix>:<text>`.
    """

    key: str
    add: dict[str, int] = {}
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    groups: dict[str, Groups] = {}


class IncrementScores(msgspec.Struct, frozen=True, array_like=True, tag="increment"):
    """Add to the scores (whole numbers up to 2^53) of the members of the ranking `key`.

    A `compact` ranking takes less memory and more CPU time, and adds positive numbers only.
    bound: of the ranking, whose texts are those of `by`. The first members have their scores; the numbers of further
        members go into the field `other` of the hash `hash`.
    """

    key: str
    by: dict[str, int]
    compact: bool = False
    bound: Groups | None = None
    hash: str = ""
    other: str = ""


class UpdateIndex(msgspec.Struct, frozen=True, array_like=True, tag="index"):
    """Add members to the index `key`, ordered by bytes, and remove members; of a ranking, remove members only."""

    key: str
    add: list[str]
    remove: list[str]


class PushRecent(msgspec.Struct, frozen=True, array_like=True, tag="push_recent"):
    """Add members with times (milliseconds) to the list `key` of the newest `keep`; ties by member."""

    key: str
    members: dict[str, int]
    keep: int


class Append(msgspec.Struct, frozen=True, array_like=True, tag="append"):
    """Add `text` to the log `key` as the entry `number` (from 1), and delete entries up to `number` - `keep`.

    A number at or below the last number is a repeat, and is ignored.
    """

    key: str
    number: int
    text: str
    keep: int


class Insert(msgspec.Struct, frozen=True, array_like=True, tag="insert"):
    """Add texts with times (milliseconds) to the timeline `family`:`key`.

    With `instead`, the texts replace entries of the same times.
    """

    family: str
    key: str
    entries: dict[str, int]
    instead: bool = False


class AppendLines(msgspec.Struct, frozen=True, array_like=True, tag="append_lines"):
    """Append lines, each with its line feed, to the days of the history `family`:`key`, in the order of the commits.

    days: the lines by day, as the decimal number of days since 1970. most_bytes: of a day. A line that does not fit is
        left out, and counted.
    """

    family: str
    key: str
    days: dict[str, str]
    most_bytes: int = 2**53


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="remove"):
    """Remove the entry `text`, if present, from the timeline `family`:`key`."""

    family: str
    key: str
    text: str


class DeleteTimeline(msgspec.Struct, frozen=True, array_like=True, tag="delete_timeline"):
    """Delete the timeline or history `family`:`key` and its name in the family."""

    family: str
    key: str


class ExpireBefore(msgspec.Struct, frozen=True, array_like=True, tag="expire"):
    """Expire all present and later entries of `family`'s timelines before the time `before` (milliseconds).

    Reads omit expired entries from the commit on; this commit and later commits remove expired entries in steps.
    """

    family: str
    before: int


class ExpireDays(msgspec.Struct, frozen=True, array_like=True, tag="expire_days"):
    """Expire the days of `family`'s histories that end by the time `before` (milliseconds, the start of a day).

    This commit and later commits remove expired days in steps; later lines of an expired day are never read.
    """

    family: str
    before: int


Operation = (
    Put
    | Delete
    | Merge
    | IncrementScores
    | UpdateIndex
    | PushRecent
    | Append
    | Insert
    | AppendLines
    | Remove
    | DeleteTimeline
    | ExpireBefore
    | ExpireDays
)


def require_exact(operations: Iterable[Operation]) -> None:
    """Raise `OverflowError` for a number of an operation that is beyond ±`MOST`."""
    numbers: list[int] = []
    for operation in operations:
        if isinstance(operation, IncrementScores):
            numbers += operation.by.values()
        elif isinstance(operation, Merge):
            numbers += operation.add.values()
            numbers += operation.least.values()
            numbers += operation.most.values()
    if numbers and not -MOST <= min(numbers) <= max(numbers) <= MOST:
        msg = f"a number of a commit is beyond {MOST}, up to which numbers are exact"
        raise OverflowError(msg)


def adds(operation: Operation) -> bool:
    """Whether a stored number may get too large by `operation`."""
    return isinstance(operation, IncrementScores | Merge)


def changes(operation: Operation) -> int:
    """The cost of `operation`: the most fields, members or entries to write.

    An entry of a timeline counts four times: it replaces another entry, and is removed later.
    """
    # Each operation of each commit comes here: sub-patterns take more than twice as long.
    match operation:
        case IncrementScores():
            return len(operation.by)
        case Merge():
            return len(operation.add) + len(operation.least) + len(operation.most)
        case PushRecent():
            return len(operation.members)
        case UpdateIndex():
            return len(operation.add) + len(operation.remove)
        case Insert():
            return 4 * len(operation.entries)
        case AppendLines():
            return len(operation.days)
        case _:
            return 1


class Value(msgspec.Struct, frozen=True):
    """The text of `Put`, or None."""

    key: str


class Fields(msgspec.Struct, frozen=True):
    """The fields of `Merge`: {field: whole number}, empty without a merge."""

    key: str


class Field(msgspec.Struct, frozen=True):
    """A field of `Merge`: a whole number, or None."""

    key: str
    field: str


class Top(msgspec.Struct, frozen=True):
    """The first `n` of a ranking: [(member, score)], highest score first, ties by member in byte order.

    Of a compact ranking up to 64, or with `compact` any number, of which a larger ranking has any `n` members.
    within: of the members with scores from the first to the second number, both inclusive; not of a compact ranking.
    """

    key: str
    n: int
    compact: bool = False
    within: tuple[int, int] | None = None


class Newest(msgspec.Struct, frozen=True):
    """The first `n` of a list: [(member, milliseconds)], newest first, ties by member in descending byte order."""

    key: str
    n: int


class Members(msgspec.Struct, frozen=True):
    """The first `n` members of an index from `start` to before `end` (empty: no end): [member].

    In byte order, reversed when `descending`.
    """

    key: str
    start: str
    end: str
    n: int
    descending: bool = False


class Since(msgspec.Struct, frozen=True):
    """The first `n` entries of a log after the number `after`: [(number, text as UTF-8 bytes)], in order."""

    key: str
    after: int
    n: int


class Between(msgspec.Struct, frozen=True):
    """The entries of a timeline from the time `start` to before `end`: [(text, milliseconds)].

    In order of time, ties by text in byte order, both reversed when `descending`; at most `n`, without the first
    `skip`. The answer ends with the entry that reaches `most_bytes` of text.
    """

    key: str
    start: int
    end: int = 2**53
    n: int = 2**31 - 1
    skip: int = 0
    most_bytes: int = 2**53
    descending: bool = False


class Size(msgspec.Struct, frozen=True):
    """The number of members of a ranking; of a compact ranking with `compact`. within: as of `Top`."""

    key: str
    compact: bool = False
    within: tuple[int, int] | None = None


class HistoryDays(msgspec.Struct, frozen=True):
    """A history: the time before which its days are expired (milliseconds), {day: lines} and {day: lines left out}."""

    family: str
    name: str

    @property
    def key(self) -> str:
        """The state key."""
        return f"{self.family}:{self.name}"


Read = Value | Fields | Field | Top | Newest | Members | Since | Between | Size | HistoryDays
