"""What an app declares of its state: views, which answer questions, their part at the gateway, and personal data."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, inspect

from streamstate.errors import BadParameter
from streamstate.keys import MURMUR2, KeyCodec, partition_of
from streamstate.state.operations import Between, Delete, DeleteTimeline, Insert, Operation, Read, Remove, Top
from streamstate.state.store import Snapshot, Store
from streamstate.texts import milliseconds, plain

K = TypeVar("K")
Q = TypeVar("Q", bound=msgspec.Struct)

Scope = Literal["read", "explore", "admin"]
"""A caller's rights: read the data of a key, explore the data of all keys, operate."""

READ: Scope = "read"
EXPLORE: Scope = "explore"
ADMIN: Scope = "admin"


class NamedIds(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ids in the answer of a view to which the gateway adds names.

    views: by the path of an id in the answer, the view whose answer for the id has its `name`. A path is the names of
        the lists on the way to the id, and of its member, joined by dots. The gateway adds the name beside the id:
        `name` beside `id`, `artistName` beside `artistId`; null for an unknown name.
    empty_warnings: whether the answer has the member `warnings` also when no name is missing.
    """

    views: dict[str, str]
    empty_warnings: bool = True


class ComparisonCost(msgspec.Struct, frozen=True):
    """The price of comparisons such as `plays_7d.in.7,8` in a repeated parameter, in reads of a key.

    parameter: its name. per_range: of each value of the first comparison, in each partition. per_comparison: of each
    comparison, whose candidates are read. exact: the indexes that alone decide without candidates.
    """

    parameter: str
    per_range: int
    per_comparison: int
    exact: tuple[str, ...] = ()

    def of(self, given: Sequence[str], partitions: int) -> int:
        """The price of these values of the parameter, over so many partitions."""
        if not given:
            return 0
        alone = len(given) == 1 and given[0].partition(".")[0] in self.exact
        candidates = 0 if alone else self.per_comparison * len(given)
        return candidates + self.per_range * partitions * (given[0].count(",") + 1)


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """The price of a request: `base`, multiplied by each parameter's ratio to its covered value, and `comparisons`.

    base: in reads of a key.
    covers: by parameter, the largest value without surcharge.
    """

    base: int = 1
    covers: dict[str, int] = msgspec.field(default_factory=dict)
    comparisons: ComparisonCost | UnsetType = UNSET


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes a view, called by its name, a part of `/v1/users/{id}`: its members become members of the joined answer.

    The view has the scope `read`. Its member `warnings`, a list of strings, is added to the warnings of the joined
    answer.

    members: the lists that the view adds. When the view fails, the lists are empty and named in `warnings`; for a key
        unknown to the view, the lists are only empty.
    remarks: further lists, then empty and not named in `warnings`.
    required: whether a failure of the view fails the request, with the view's problem. At most one part is required.
    by_default: whether a request without a choice of parts gets the part.
    parameters: the view's parameters that a request for the joined answer accepts too.
    nested: whether the whole answer is one member of the joined answer, called by the view's name: null when the view
        fails, then named in `warnings`, and for a key unknown to the view.
    """

    members: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    required: bool = False
    by_default: bool = True
    parameters: tuple[str, ...] = ()
    nested: bool = False


class PartitionState(NamedTuple):
    """A partition of a view's topic: Kafka's id of the topic (empty: unknown), the next offset, and the read values."""

    topic_id: str
    position: int
    values: Sequence[Any]


@dataclass(frozen=True)
class View(Generic[K]):
    """One question, answered at `path` and, for many keys at once, at `/v1/many`.

    About one key, given in the path as `<key>`: the partitioning of the source `topic` gives the key's partition;
    `reads` gets the key, `answer` the key and the read values, in the order of `reads`.
    About all partitions of `topic`, or of all topics when it is None: `answer` gets the values of every partition
    instead, and may ask for `Further` reads. The question is about all keys when `key` is None; without a topic it may
    be about a key.

    query: the parameters of the request, all with defaults; passed to `reads` and `answer` as a further argument.
    example: an answer, for the document; all answers have its type. None answers an unknown key.
    names, part: the names that the gateway adds to the answer, and the joined answer that the gateway adds it to.
    scope: the right that a caller of the gateway needs.
    cost: the price of a request; by default of a key, or of all partitions.
    version: a read, given the key, whose value changes with the answer. Clients that watch many keys find changed
        answers by the version at low cost.
    profile: the words of the profile that the view answers, for the owner map.
    positioned: whether `answer`, about all partitions of `topic`, gets a `PartitionState` in place of their values.
    partitioner: of the topic; set by the `App`.
    """

    name: str
    path: str
    summary: str
    topic: str | None
    key: KeyCodec[K] | None
    reads: Callable[..., Sequence[Read]]
    answer: Callable[..., msgspec.Struct | None]
    example: msgspec.Struct
    query: type[msgspec.Struct] | None = None
    names: NamedIds | UnsetType = UNSET
    part: Part | UnsetType = UNSET
    scope: Scope = READ
    cost: Cost | None = None
    version: Callable[[K], Read] | None = None
    profile: Mapping[str, Any] | UnsetType = UNSET
    positioned: bool = False
    partitioner: str = MURMUR2

    @property
    def versions(self) -> "View[K] | None":
        """The view that answers with the version alone, None for a view without a version."""
        if (version := self.version) is None:
            return None
        return replace(self, reads=lambda key: [version(key)], answer=lambda _key, values: values[0], query=None)

    @property
    def over_all_partitions(self) -> bool:
        """Whether the view is about all partitions together."""
        return self.topic is None or self.key is None

    def ask(self, text: str, query: msgspec.Struct | None = None) -> "Question":
        """The view for the key named `text`, with the defaults of its parameters unless `query` is given.

        Raises `BadKey` for text that names no key.
        """
        key = () if self.key is None else (self.key.parse(text),)
        given = () if self.query is None else (query or self.query(),)
        return Question(self, key, given)


class Further(msgspec.Struct, frozen=True):
    """In place of an answer over all partitions: further reads by partition; `then` makes the answer from their values.

    The values are of a later moment than the values before, and of the same claim: see `Snapshot.continues`.
    """

    reads: Mapping[int, Sequence[Read]]
    then: Callable[[Mapping[int, Sequence[Any]]], msgspec.Struct | None]


Steps = Generator[Mapping[int, Sequence[Read]], Mapping[int, Sequence[Any]], msgspec.Struct]
"""An answer in steps: yields further reads by partition, and gets their values."""


def in_steps(steps: Steps, values: Any = None) -> msgspec.Struct:
    """The answer of `steps`, or the `Further` reads on the way there."""
    try:
        return Further(steps.send(values), partial(in_steps, steps))
    except StopIteration as done:
        made: msgspec.Struct = done.value
        return made


TIME = {"time": True}
"""`Meta.extra` of a parameter that is a time, in milliseconds since 1970: a request may give ISO 8601 too."""


def parameters(kind: type[Q], given: Mapping[str, str | list[str]]) -> Q:
    """The parameters of a request. Raises `BadParameter` for a text of another type, or a number beyond its limits."""
    times = {name: _time(name, text) for name, text in given.items() if name in _times(kind) and isinstance(text, str)}
    try:
        return msgspec.convert({**given, **times}, kind, strict=False)
    except msgspec.ValidationError as error:
        why, _, name = str(error).partition(" - at `$.")
        msg = f"{name.rstrip('`')}: {plain(why).removesuffix(', found a text')}"
        raise BadParameter(msg) from error


@cache
def _times(kind: type[msgspec.Struct]) -> frozenset[str]:
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]  # of a struct
    return frozenset(of.encode_name for of in fields if isinstance(of.type, inspect.Metadata) and of.type.extra == TIME)


def _time(name: str, text: str) -> int:
    try:
        return milliseconds(text)
    except ValueError as error:
        msg = f"{name}: {error}"
        raise BadParameter(msg) from error


def encoded(answer: Any) -> bytes:
    """The body of an answer in JSON."""
    return msgspec.json.encode(answer)


@dataclass(frozen=True)
class Question:
    """A view with the requested key and parameters, each a tuple of zero or one element."""

    view: View[Any]
    key: tuple[Any, ...]
    query: tuple[msgspec.Struct, ...]

    @property
    def reads(self) -> Sequence[Read]:
        return self.view.reads(*self.key, *self.query)

    def answer(self, values: Sequence[Any]) -> msgspec.Struct | None:
        """The answer of the view for the read `values`."""
        return self.view.answer(*self.key, values, *self.query)

    def answer_of(self, snapshots: Iterable[Snapshot]) -> msgspec.Struct | None:
        """The answer of the view, or the `Further` reads to it, for the read partitions."""
        if not self.view.positioned:
            values = [snapshot.values for snapshot in snapshots]
            return self.answer(values if self.view.over_all_partitions else values[0])
        topic = self.view.topic or ""
        ids = [(of.origins[topic].id if topic in of.origins else "", of) for of in snapshots]
        return self.answer([PartitionState(i, of.positions.get(topic, 0), of.values) for i, of in ids])

    def answer_from(self, store: Store, counts: Mapping[str, int]) -> msgspec.Struct | None:
        """The answer of the view for the state in `store`, given the partition counts by topic."""
        answer = self.answer_of(store.read(dict.fromkeys(self.partitions(counts), self.reads)).values())
        while isinstance(answer, Further):
            answer = answer.then({partition: of.values for partition, of in store.read(answer.reads).items()})
        return answer

    def partitions(self, counts: Mapping[str, int]) -> Iterable[int]:
        """Where the answer is, given the partition counts by topic."""
        if self.view.topic is None:
            return range(max(counts.values()))
        if self.view.key is None:
            return range(counts[self.view.topic])
        return (partition_of(self.view.key.encode(*self.key), counts[self.view.topic], self.view.partitioner),)


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
        key, compact = self.read.key, isinstance(self.read, Top) and self.read.compact
        return DeleteTimeline(self.family, key.removeprefix(f"{self.family}:")) if self.family else Delete(key, compact)


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
