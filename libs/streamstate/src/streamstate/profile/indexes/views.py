"""The views of a profile with indexes: the keys with given values, and their number."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.profile.answer import At, end_ms
from streamstate.profile.answer_type import NUMBER_KEYS
from streamstate.profile.declaration import Declaration
from streamstate.profile.indexes.layout import INDEX, TIME, indexes_of
from streamstate.profile.indexes.walk import Walk
from streamstate.profile.indexes.where import Comparison, comparisons
from streamstate.state.operations import Fields, Read
from streamstate.view import EXPLORE, ComparisonCost, Cost, Steps, View, in_steps

MOST_KEYS = 1_000
"""The most keys of an answer."""

BASE_COST, RANGE_COST, COMPARISON_COST = 20, 2, 300
"""Prices in reads of a key: of an answer, of the shards of a range in a partition, and of a comparison's 1,000 keys."""

Where = Annotated[
    tuple[str, ...],
    Meta(
        min_length=1,
        max_length=8,
        description="comparisons that all hold, such as `plays_7d.ge.100`; the most selective first",
    ),
]


class CountKeys(msgspec.Struct, frozen=True):
    """The parameters of a request for the number of keys."""

    where: Where = ()
    at: At = None


class FindKeys(msgspec.Struct, frozen=True):
    """The parameters of a request for keys."""

    where: Where = ()
    limit: Annotated[int, Meta(ge=1, le=MOST_KEYS, description="most keys of an answer")] = 100
    cursor: Annotated[str, Meta(max_length=4_096, description="`cursor` of the answer before")] = ""
    at: At = None


class FoundKeys(msgspec.Struct):
    """Keys, by partition and shard. An answer with a `cursor` is not the last, even with fewer keys than `limit`."""

    keys: list[int | str]
    cursor: str | None


class NumberOfKeys(msgspec.Struct):
    """The number of keys; at least so many if not `exact`."""

    count: int
    exact: bool


class Finder:
    """`View.reads` and `View.answer` of the keys with given values, or of their number."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._indexes = indexes_of(declared)

    def reads(self, query: CountKeys | FindKeys) -> Sequence[Read]:
        """The stream time, for windows. Raises `BadParameter`."""
        return [Fields(INDEX)] if any(each.index.window for each in self._comparisons(query)) else []

    def answer(self, partitions: Sequence[Sequence[Any]], query: CountKeys | FindKeys) -> msgspec.Struct:
        """The answer, or the further reads to it. Raises `BadParameter`."""
        at = end_ms(query.at)
        time = max((values[0].get(TIME, 0) for values in partitions if values), default=0)
        walk = Walk(self._declared, self._comparisons(query), len(partitions), at, time)
        return in_steps(self._found(walk, query) if isinstance(query, FindKeys) else _counted(walk))

    def _comparisons(self, query: CountKeys | FindKeys) -> Sequence[Comparison]:
        return comparisons(query.where, self._indexes, self._declared.types)

    def _found(self, walk: Walk, query: FindKeys) -> Steps:
        keys, cursor = yield from walk.find(query.limit, query.cursor)
        return FoundKeys([int(key) for key in keys] if self._declared.key_type in NUMBER_KEYS else list(keys), cursor)


def _counted(walk: Walk) -> Steps:
    return NumberOfKeys(*(yield from walk.count()))


def finders(declared: Declaration) -> Sequence[View[Any]]:
    """The views of the indexes, at the profile's path without its key; none without an index."""
    if not indexes_of(declared):
        return ()
    finder, beside = Finder(declared), declared.path.replace("/<key>", "")
    exact = tuple(index.name for index in indexes_of(declared) if index.window is None)
    cost = Cost(BASE_COST, comparisons=ComparisonCost("where", RANGE_COST, COMPARISON_COST, exact))
    examples = FoundKeys([42] if declared.key_type in NUMBER_KEYS else ["anna"], None), NumberOfKeys(1, exact=True)
    find = f"The keys of {declared.name} with given values"
    count = f"The number of keys of {declared.name} with given values"
    shared = declared.keyed_topic, None, finder.reads, finder.answer
    return (
        View(f"{declared.name}-find", f"{beside}/find", find, *shared, examples[0], FindKeys, scope=EXPLORE, cost=cost),
        View(
            f"{declared.name}-count",
            f"{beside}/count",
            count,
            *shared,
            examples[1],
            CountKeys,
            scope=EXPLORE,
            cost=cost,
        ),
    )
