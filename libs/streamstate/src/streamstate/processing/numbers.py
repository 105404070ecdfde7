"""Stored numbers are exact up to ±2^53: a record that takes one beyond is refused before anything is written.

Whether a record does that depends on the records before it, and must not depend on how they are cut into batches. So
a batch is folded as a whole only when none of its records could be refused one by one, and is halved otherwise. A batch
shows only the sum of what its records add:

- of numbers that only rise, or only fall, no sum within the batch is beyond the last one;
- of others, no sum within the batch is further from the first and the last one than `MARGIN` for each record. This
  holds for records that add at most that much.

A decoder bounds what a fold keeps the least or the most of. The old values are read only when a partition holds a
number beyond 2^52, or a batch adds nearly as much.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from streamstate.state.operations import MOST, Fields, IncrementScores, Merge, Operation, Read, Top

MARGIN = 2**35
"""What a record may add where numbers rise and fall."""

Sums = Mapping[Read, Mapping[str, int]]
"""What is added, by the read that gives the old numbers and the name of each there."""

_ALL = 2**31 - 1


def greatest_change(operations: Sequence[Operation]) -> int:
    """What no stored number changes by more than. Raises `OverflowError` for a least or most beyond ±2^53."""
    added: list[int] = []
    kept: list[int] = []
    for operation in operations:
        if isinstance(operation, IncrementScores):
            added += operation.by.values()
        elif isinstance(operation, Merge):
            added += operation.add.values()
            kept += operation.least.values()
            kept += operation.most.values()
    if _size(kept) > MOST:
        raise _overflow()
    bound = len(operations) * _size(added)
    return bound if bound <= MARGIN else _size([number for of in sums(operations).values() for number in of.values()])


def sums(operations: Sequence[Operation]) -> Sums:
    """What `operations` add, in all."""
    result: defaultdict[Read, Counter[str]] = defaultdict(Counter)
    for operation in operations:
        match operation:
            case Merge(key, add) if add:
                result[Fields(key)].update(add)
            case IncrementScores(key, by):
                result[Top(key, _ALL)].update(by)
    return result


def require_exact(added: Sums, old: Mapping[Read, Any], records: int) -> None:
    """Raise `OverflowError` if one of `records` could be one that takes a number beyond ±2^53. One alone is exact."""
    margin = MARGIN * records if records > 1 else 0
    for read, changes in added.items():
        numbers = dict(old[read])
        for name, change in changes.items():
            before = numbers.get(name, 0)
            reached = [before + change, before] if margin else [before + change]
            if _size(reached) + margin > MOST:
                raise _overflow()


def _size(numbers: Sequence[int]) -> int:
    return max(abs(max(numbers)), abs(min(numbers))) if numbers else 0


def _overflow() -> OverflowError:
    return OverflowError("a stored number would be beyond 2^53, up to which numbers are exact")
