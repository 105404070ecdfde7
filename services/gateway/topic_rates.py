"""The records of each topic, and the records a second, from the end offsets in the maps of all services."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import msgspec

from streamstate.web.partition_map import Processors

OVER_S = 10.0
"""Seconds of a rate: as long as the maps were read, at most that."""

Ends = Mapping[tuple[str, int], int]
"""End offsets by topic and partition."""


class Topic(msgspec.Struct, rename="camel"):
    """A topic that services read. `records`: the sum of its end offsets. `records_per_second`: of the last 10 s."""

    name: str
    records: int
    records_per_second: float


class TopicRates:
    """Rates over the end offsets of the last `OVER_S`."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Ends]] = deque()

    def read(self, maps: Iterable[Processors], now: float) -> list[Topic]:
        """All topics of `maps`, read at `now` (monotonic seconds): the busiest first, then by name."""
        ends = greatest_ends(maps)
        while self._readings and self._readings[0][0] < now - OVER_S:
            self._readings.popleft()
        before, since = next(iter(self._readings), (now, ends))
        self._readings.append((now, ends))
        records, grown = Counter[str](), Counter[str]()
        for (topic, partition), end in ends.items():
            records[topic] += end
            # A partition without an earlier end has no rate yet, and a recreated topic begins again.
            grown[topic] += max(0, end - since.get((topic, partition), end))
        topics = [Topic(name, n, round(grown[name] / (now - before or 1.0), 1)) for name, n in records.items()]
        return sorted(topics, key=lambda topic: (-topic.records_per_second, topic.name))


def greatest_ends(maps: Iterable[Processors]) -> Ends:
    """The greatest end of each partition: services read the ends at different moments."""
    ends: dict[tuple[str, int], int] = {}
    for known in maps:
        for part in known.partitions:
            for topic, end in part.ends.items():
                ends[topic, part.partition] = max(end, ends.get((topic, part.partition), 0))
    return ends
