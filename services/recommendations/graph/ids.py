"""External ids (any int64) to dense numbers 0, 1, 2 ... and back, in two arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph.kernel import kernel

FIRST = 256
GROWTH = 1.25
SLOTS = 2  # hash slots per id: at most half are taken, so a look-up probes 1.5 on average

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


class IdTable(NamedTuple):
    """The map for readers: `external[number]` is the id, `slots` the hash table of numbers.

    The writer goes on filling empty cells of both arrays with ids newer than the reader's view. So a reader treats a
    number without edges in its view as unknown.
    """

    external: Int64s
    slots: Int32s

    def find(self, name: int) -> int:
        """The dense number of an external id, or -1."""
        return int(self.slots[_slot(self.external, self.slots, np.int64(name))])

    def find_all(self, names: Int64s) -> Int32s:
        """The dense numbers of external ids, -1 for an unknown id."""
        return _find_all(self.external, self.slots, names)


class Ids:
    """Growing map of a kind's ids; numbers of dead ids are reused.

    Open addressing with linear probing. Nothing is deleted in place: `make_room` writes new arrays, and
    readers keep the old arrays.
    """

    def __init__(self) -> None:
        self.names = IdTable(np.zeros(FIRST, np.int64), np.full(FIRST * SLOTS, -1, np.int32))
        self._holes = np.empty(0, np.int32)
        self._used = np.zeros(2, np.int64)  # numbers given out so far, holes filled so far

    def __len__(self) -> int:
        """The upper bound of all assigned numbers."""
        return int(self._used[0])

    @property
    def capacity(self) -> int:
        """The upper bound of numbers until the next `make_room`."""
        return len(self.names.external)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.names.external.nbytes + self.names.slots.nbytes + self._holes.nbytes

    def room(self) -> int:
        """So many unknown ids can be added before `make_room` is needed."""
        return self.capacity - len(self) + len(self._holes) - int(self._used[1])

    def add(self, names: Int64s) -> Int32s:
        """The dense numbers of these ids; unknown ids get new numbers. There must be `room()` for all."""
        numbers = np.empty(len(names), np.int32)
        _add(*self.names, self._holes, self._used, names, numbers)
        return numbers

    def make_room(self, count: int, alive: NDArray[np.bool_]) -> None:
        """Forget the ids that are not `alive` (bool per number) and have room for `count` more."""
        holes = np.flatnonzero(~alive[: len(self)]).astype(np.int32)
        living = len(self) - len(holes)
        needed = living + count
        # After a sweep that frees little, the arrays grow as well, to postpone the next sweep.
        capacity = self.capacity if needed * GROWTH <= self.capacity else int(needed * GROWTH)
        external = np.zeros(capacity, np.int64)
        external[: len(self)] = self.names.external[: len(self)]
        self.names = IdTable(external, np.full(capacity * SLOTS, -1, np.int32))
        _index(*self.names, np.flatnonzero(alive[: len(self)]).astype(np.int32))
        self._holes, self._used[1] = holes, 0


@kernel
def _slot(external: Int64s, slots: Int32s, name: np.int64) -> np.int64:
    """Where `name` is or would go: there is always an empty slot, as at most half are taken."""
    mixed = np.uint64(name) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    at = np.int64(((mixed >> np.uint64(32)) * np.uint64(len(slots))) >> np.uint64(32))
    while slots[at] >= 0 and external[slots[at]] != name:
        at += np.int64(1)
        if at == len(slots):
            at = np.int64(0)
    return at


@kernel
def _find_all(external: Int64s, slots: Int32s, names: Int64s) -> Int32s:
    numbers = np.empty(len(names), np.int32)
    for j in range(len(names)):
        numbers[j] = slots[_slot(external, slots, names[j])]
    return numbers


@kernel
def _add(external: Int64s, slots: Int32s, holes: Int32s, used: Int64s, names: Int64s, out: Int32s) -> None:
    for j in range(len(names)):
        at = _slot(external, slots, names[j])
        number = slots[at]
        if number < 0:
            if used[1] < len(holes):
                number = holes[used[1]]
                used[1] += 1
            else:
                number = np.int32(used[0])
                used[0] += 1
            external[number] = names[j]  # before the slot by which readers find the id
            slots[at] = number
        out[j] = number


@kernel
def _index(external: Int64s, slots: Int32s, numbers: Int32s) -> None:
    for number in numbers:
        slots[_slot(external, slots, external[number])] = number
