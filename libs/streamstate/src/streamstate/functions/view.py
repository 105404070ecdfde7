"""Views as functions of a key and a state."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from streamstate.errors import NotRequested
from streamstate.functions.batch import is_state, parameters
from streamstate.functions.state import Clock, Reader, State, empty
from streamstate.keys import TEXT, KeyCodec
from streamstate.state.operations import Field, Members, Read
from streamstate.view import View

Answer = Callable[..., msgspec.Struct | None]

_CACHED = 1_024
"""The requests of a view whose reads are kept."""


def view(
    path: str, example: msgspec.Struct, key: KeyCodec[Any] = TEXT, **members: Any
) -> Callable[[Answer], View[Any]]:
    """Makes a `View` of a function, called by the function's name, with its docstring as the summary.

    The parameter annotated with a `State` is the state of the key in `path`; a state of partitions is the sum of all
    partitions. A parameter annotated with a `msgspec.Struct` has the parameters of the request; another parameter is
    the key. The function returns None for an unknown key. It is called with an empty state first, to learn its reads:
    it reads the same of any state.

    key: the type of the key of a view of partitions. members: further members of the `View`.
    """

    def decorate(function: Answer) -> View[Any]:
        of = FunctionView(function, key if "<key>" in path else None)
        summary = (function.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
        topic = of.source.topic if of.source else None
        own: dict[str, Any] = {
            "name": function.__name__.replace("_", "-"),
            "summary": summary,
            "query": of.query,
            "topic": topic,
        }
        return View(path=path, key=of.key, reads=of.reads, answer=of.answer, example=example, **own | members)

    return decorate


class FunctionView:
    """The members of a `View` made of a function. `key` is the type of the key of a view of partitions."""

    def __init__(self, function: Answer, key: KeyCodec[Any] | None) -> None:
        self._function = function
        kinds = list(parameters(function).values())
        states = [kind for kind in kinds if is_state(kind)]
        if len(states) != 1 or (states[0].source and key is None):
            msg = f"{function.__name__}: a view has one State, and <key> in the path of a State by a topic"
            raise TypeError(msg)
        (self._state,) = states
        self.source = self._state.source
        self.key = self.source.key if self.source else key
        queries = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct))
        self.query: type[msgspec.Struct] | None = next(queries, None)
        # Of each argument, its place in the state, the key, and the parameters of a request.
        self._places = [0 if kind is self._state else 2 if kind is self.query else 1 for kind in kinds]
        if self._places.count(1) > (self.key is not None):
            msg = (
                f"{function.__name__}: besides its State a view has a key, with <key> in the path, and the parameters "
                "of the request in one msgspec.Struct"
            )
            raise TypeError(msg)
        # Each request asks for the reads before the answer.
        self._cached = lru_cache(_CACHED)(self._reads)

    def reads(self, *asked: Any) -> Sequence[Read]:
        """The reads of `answer`, for a key and parameters."""
        try:
            hash(asked)
        except TypeError:
            # Parameters that are not frozen, or a list of them.
            return self._reads(*asked)
        return self._cached(*asked)

    def _reads(self, *asked: Any) -> Sequence[Read]:
        reads: dict[Read, None] = {}

        def read(read: Read) -> Any:
            reads[read] = None
            return empty(read)

        state = self._state(asked[0] if asked else None, read, Clock())
        self._call(state, asked)
        if any(True for _ in state.effects()):
            msg = f"{self._function.__name__}: a view writes nothing"
            raise TypeError(msg)
        return tuple(reads)

    def answer(self, *asked: Any) -> msgspec.Struct | None:
        """The answer, for a key, the values of `reads`, and parameters."""
        at = 0 if self.key is None else 1
        values, asked = asked[at], (*asked[:at], *asked[at + 1 :])
        reads = self.reads(*asked)
        if not self.source:
            values = [_sum(read, of_read) for read, of_read in zip(reads, zip(*values, strict=True), strict=True)]
        found = dict(zip(reads, values, strict=True))
        return self._call(self._state(asked[0] if asked else None, _reader(found), Clock()), asked)

    def _call(self, state: State, asked: Sequence[Any]) -> msgspec.Struct | None:
        arguments = state, asked[0] if asked else None, asked[-1] if asked else None
        return self._function(*[arguments[place] for place in self._places])


def _reader(found: Mapping[Read, Any]) -> Reader:
    def read(read: Read) -> Any:
        if read not in found:
            cell = read.key.partition(":")[0]
            msg = f"a view reads the same of any state; move the read of {cell} before the first condition on a value"
            raise NotRequested(msg)
        return found[read]

    return read


def _sum(read: Read, values: Sequence[Any]) -> Any:
    """The values of all partitions together, of a `Sum`, `Counters` or `KeySet`."""
    match read:
        case Members():
            return sorted({member for members in values for member in members}, reverse=read.descending)
        case Field():
            numbers = [number for number in values if number is not None]
            return sum(numbers) if numbers else None
        case _:
            total: Counter[str] = Counter()
            for fields in values:
                total.update(fields)
            return dict(total)
