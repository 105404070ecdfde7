"""State as declared: a class whose members are cells, bound to one key for a batch of records or for an answer."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from streamstate.app import Effect, Record, Setting, Source
from streamstate.state.operations import Between, Fields, Members, Newest, Operation, Read, Top
from streamstate.view import UserKey

Reader = Callable[[Read], Any]
"""Returns the value of a read."""

Records = Sequence[Record[Any, Any]]

C = TypeVar("C", bound="Cell")


@dataclass
class Clock:
    """`now` is the greatest Kafka timestamp (ms) up to the current record of a batch."""

    now: int = 0


class Cell(ABC):
    """A member of a `State`: a number, a text or a collection of each key.

    Bound to a key, it records writes during a batch, or reads for an answer.
    """

    name: str
    state: "type[State]"
    loading: bool = False
    """Whether folds read the cell."""
    shares: bool = False
    """Whether the cells of a state share one state key."""
    summed: bool = False
    """Whether the values of several partitions have a sum, or are one set."""
    _key: str
    """The state key of the bound key."""
    _read: Reader
    _clock: Clock

    def __set_name__(self, owner: "type[State]", name: str) -> None:
        self.name, self.state = name, owner

    def __get__(self, state: "State | None", _owner: "type[State]") -> Self:
        return self if state is None else state.bind(self)

    def bound(self, key: Any, read: Reader, clock: Clock, records: Records) -> Self:
        """The cell of one key. records: the records of the key in the batch, none for an answer."""
        # `copy.copy` takes five times as long.
        cell = object.__new__(type(self))
        cell.__dict__.update(self.__dict__)
        cell._key, cell._read, cell._clock = self.place(key), read, clock
        cell.begin(key, records)
        return cell

    def place(self, key: Any) -> str:
        return self.state.place(self.name, key)

    @property
    def family(self) -> str:
        """The state keys of a cell kept as timelines."""
        return f"{self.state.prefix}{self.name}"

    @abstractmethod
    def begin(self, key: Any, records: Records) -> None:
        """Bind to `key`, without writes."""

    @abstractmethod
    def effects(self) -> Iterable[Effect]:
        """The recorded writes."""

    @abstractmethod
    def places(self, key: Any) -> Iterable[UserKey]:
        """The state keys for `key`, for export and deletion."""

    def loads(self, _key: Any, _records: Records) -> Iterable[Read]:
        """The reads of a fold for the records of a key, if the cell is `loading`."""
        return ()

    def expiry(self, _now: int) -> Iterable[Effect]:
        """The effects of the stream time at the end of a batch."""
        return ()

    def forgotten(self, _users: Iterable[Any]) -> Iterable[Operation]:
        """The removal of deleted users from a state of partitions."""
        return ()

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The arguments on which the state depends."""
        return {}


class State:
    """The state of each key of the topic `by`; without a topic, the state of each partition.

    The members of a class are cells. A view of a state without a topic gets the sum of the partitions, so the cells
    are sums, counters and sets of keys.

    users: whether the keys are users, whose state is exported and deleted. prefix: of the state keys, where an app has
        several states of the same members, such as one for each topic of its settings.
    """

    source: ClassVar[Source[Any, Any] | None]
    users: ClassVar[bool]
    prefix: ClassVar[str]
    cells: ClassVar[Sequence[Cell]]

    def __init_subclass__(cls, *, by: Source[Any, Any] | None = None, users: bool = False, prefix: str = "") -> None:
        cls.source, cls.users, cls.prefix = by, users, prefix
        cls.cells = [cell for cell in vars(cls).values() if isinstance(cell, Cell)]
        if cls.__bases__ != (State,):
            msg = f"{cls.__name__}: a state has State as its only base"
            raise TypeError(msg)
        if taken := [cell.name for cell in cls.cells if cell.name in {*dir(State), *State.__annotations__}]:
            msg = f"{cls.__name__}: no member is called {taken[0]}, which is a member of State"
            raise TypeError(msg)
        if by is None and (odd := [cell.name for cell in cls.cells if not cell.summed]):
            msg = (
                f"{cls.__name__}: {odd[0]} has no sum over partitions; without `by`, a state has Sum, Counters, KeySet"
            )
            raise TypeError(msg)

    _bound: list[Cell]
    _arguments: tuple[Any, Reader, Clock, Records]

    def __init__(self, key: Any, read: Reader, clock: Clock, records: Records = ()) -> None:
        self.__dict__.update(_bound=[], _arguments=(key, read, clock, records))

    def __setattr__(self, name: str, _value: Any) -> None:
        """Raises `TypeError`: a value in place of a cell would be lost."""
        msg = f"{name} of {type(self).__name__} is no variable; write by a method of its cell, such as `add` or `set`"
        raise TypeError(msg)

    def bind(self, cell: C) -> C:
        """The cell of this state's key."""
        bound = self.__dict__[cell.name] = cell.bound(*self._arguments)
        self._bound.append(bound)
        return bound

    def effects(self) -> Iterable[Effect]:
        """The recorded writes of the cells."""
        for cell in self._bound:
            yield from cell.effects()

    @classmethod
    def title(cls) -> str:
        """The name of the class in small letters with hyphens."""
        return re.sub(r"(?<=.)([A-Z])", r"-\1", cls.__name__).lower()

    @classmethod
    def place(cls, name: str, key: Any) -> str:
        return f"{cls.prefix}{name}:{key}" if cls.source else f"{cls.prefix}{name}"


def empty(read: Read) -> Any:
    """The value of `read` in an empty state."""
    match read:
        case Fields():
            return {}
        case Top() | Newest() | Between() | Members():
            return []
        case _:
            return None
