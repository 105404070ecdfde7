"""The answers of an app: a view answers one question, about a key or about all partitions together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from streamstate.gateway import READ, NamedIds, Part, Scope
from streamstate.keys import KeyCodec, partition_of
from streamstate.state.operations import Read

K = TypeVar("K")


@dataclass(frozen=True)
class View(Generic[K]):
    """One question, answered at `path` and, for many keys at once, at `/v1/many`.

    About one key, given in the path as `<key>`: the partitioning of the source `topic` gives the key's partition;
    `reads` gets the key, `answer` the key and the read values, in the order of `reads`.
    About all partitions of `topic`, or of all topics when it is None: `answer` gets the values of every partition
    instead. The question is about all keys when `key` is None; without a topic it may be about a key.

    query: the parameters of the request, all with defaults; passed to `reads` and `answer` as a further argument.
    example: an answer, for the document; all answers have its type. None answers an unknown key.
    names, part: the names that the gateway adds to the answer, and the joined answer that the gateway adds it to.
    scope: the right that a caller of the gateway needs.
    version: a read, given the key, whose value changes with the answer. Clients that watch many keys find changed
        answers by the version at low cost.
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
    version: Callable[[K], Read] | None = None

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

    def partitions(self, counts: Mapping[str, int]) -> Iterable[int]:
        """Where the answer is, given the partition counts by topic."""
        if self.view.topic is None:
            return range(max(counts.values()))
        if self.view.key is None:
            return range(counts[self.view.topic])
        return (partition_of(self.view.key.encode(*self.key), counts[self.view.topic]),)
