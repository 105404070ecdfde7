"""The order in which the records of merged topics are folded."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

Times = Mapping[tuple[str, int], int]
"""Stream times (milliseconds) by topic and partition."""


def in_order(rows: DataFrame, topics: Sequence[str], times: Times, slots: int) -> DataFrame:
    """All topics of a partition in one of `slots` tasks, by stream time; at a tie in the order of `topics`.

    `times` are the stream times that are stored. Spark sorts with spilling, so a micro-batch may be of any size.
    """
    so_far = Window.partitionBy("partition", "topic").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    place = f.concat_ws(":", "topic", "partition")
    stored = {f"{topic}:{partition}": time for (topic, partition), time in times.items()}
    stream_time = f.greatest(f.max("timestamp").over(so_far), _lookup(stored)[place])
    rank = _lookup({topic: rank for rank, topic in enumerate(topics)})[f.col("topic")]
    return (
        # Enough for the window too: rows of one partition and topic are already together.
        rows.repartition(slots, "partition")
        .withColumns({"stream_time": stream_time, "rank": rank})
        .sortWithinPartitions("partition", "stream_time", "rank", "offset")
        .drop("stream_time", "rank")
    )


def _lookup(numbers: Mapping[str, int]) -> Column:
    """A map of literals; a key that is not in it gives null, which `greatest` ignores."""
    return f.create_map(*(f.lit(part) for pair in numbers.items() for part in pair))
