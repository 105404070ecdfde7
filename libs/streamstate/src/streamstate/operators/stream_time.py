"""Stream time within a batch, and the names of timelines."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from typing import Any

from streamstate.app import FoldContext, Record


def clock(records: Iterable[Record[Any, Any]], context: FoldContext) -> Iterator[int]:
    """The stream time at each of `records`: the greatest Kafka timestamp so far, of all topics of the fold."""
    return islice(accumulate((record.stream_time for record in records), max, initial=context.time), 1, None)


def timeline(family: str, key: Any) -> str:
    """The state key of one timeline of a family, for a `Between`."""
    return f"{family}:{key}"
