"""The age of the state behind an answer.

The state at offset o of a partition has all records from before the time when o was the partition's end. So an API
computes the age without the stream, from end offsets that it reads periodically. Records of an open transaction are in
Kafka, and not in the state.
"""

import math
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import structlog
from confluent_kafka import KafkaException
from prometheus_client.core import Metric

from streamstate.deployment.background import keep_running
from streamstate.deployment.metrics import Definition
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.state.store import EACH, Positions, TopicPartition, offsets_text
from streamstate.web.http.request import AGE, POSITION

log = structlog.get_logger()

POLL_S = 0.5
_MOST_READINGS = 600

RECENT_S = 5.0
"""Seconds from which an unknown key may be due to the age of the state."""

STATE_AGE = Definition(
    "streamstate_state_age_seconds",
    ("service", "partition"),
    "seconds since the state had all records of its topics, up to 300",
)
METRICS = (STATE_AGE,)

Readings = Sequence[tuple[float, Positions]]
"""End offsets, each with the time of reading (seconds of one clock, rising)."""


MOST_BYTES = 1_024
"""Limit of offsets in a header: proxies limit the head of an answer, by default to 4 KiB."""


def bounded_text(offsets: Positions) -> str:
    """As `offsets_text`, for a header of any client: a longer text has the greatest offset of a topic, `topic:*=`."""
    text = offsets_text(offsets)
    if len(text) <= MOST_BYTES:
        return text
    greatest: dict[TopicPartition, int] = {}
    for (topic, _), offset in offsets.items():
        greatest[topic, EACH] = max(offset, greatest.get((topic, EACH), 0))
    return offsets_text(greatest)


def age(readings: Readings, now: float, positions: Positions) -> float | None:
    """Seconds since a state at `positions` was complete; None if it was complete at none of `readings`."""
    complete_at = now
    for place, position in positions.items():
        current = bool(readings) and readings[-1][1].get(place, position + 1) <= position
        complete = len(readings) if current else _complete(readings, place, position)
        moment, ends = readings[complete - 1] if complete else (now, {})
        if place not in ends:
            return None
        complete_at = min(complete_at, moment)
    return now - complete_at if positions else None


def _complete(readings: Readings, place: TopicPartition, position: int) -> int:
    """The readings until `position` was before the end. Ends rise: a search costs a lagging state's reads little."""

    def end(reading: tuple[float, Positions]) -> int:
        return reading[1].get(place, -1)

    return bisect_right(readings, position, key=end)


def age_text(seconds: float | None) -> str:
    """The age of an old state, in words."""
    return "the state has long been behind" if seconds is None else f"the state is {seconds * 1000:.0f} ms old"


class Freshness:
    """The end offsets of an app's topics, read periodically. Safe for threads."""

    def __init__(self, topics: Topics, names: Sequence[str]) -> None:
        self._topics = topics
        self._names = names
        # Replaced, never changed: readers need no lock.
        self._readings: Readings = ()

    async def start(self) -> None:
        """Read the end offsets until the process ends."""
        keep_running("freshness", self._try_to_refresh, POLL_S)

    def refresh(self) -> None:
        """Read the end offsets. Raises `KafkaException` or `Misconfigured` without an answer of Kafka."""
        places = [(topic, p) for topic in self._names for p in range(self._topics.partitions(topic))]
        now = time.monotonic()
        self._readings = (*self._readings[1 - _MOST_READINGS :], (now, self._topics.high_watermarks(places)))

    def widths(self) -> Mapping[str, int]:
        """The known partition counts of topics; never waits for Kafka."""
        known = {topic: self._topics.known(topic) for topic in self._names}
        return {topic: origin.partitions for topic, origin in known.items() if origin is not None}

    @property
    def silent_since(self) -> str:
        """The time from which on Kafka has not answered, as of ISO 8601; empty while Kafka answers."""
        return silence.moment if (silence := self._topics.silence) else ""

    def headers(self, positions: Positions, *, exact: bool = False) -> dict[str, str]:
        """The headers about a state at `positions`; `exact` is for calls between instances only."""
        headers = {POSITION: offsets_text(positions) if exact else bounded_text(positions)}
        if (seconds := self.age(positions)) is not None:
            headers[AGE] = f"{seconds * 1000:.0f}"
        return headers

    def age(self, positions: Positions) -> float | None:
        """Seconds since a state at `positions` was complete, None if unknown."""
        return age(self._readings, time.monotonic(), positions)

    def warning(self, positions: Positions) -> str:
        """The age of a state at `positions`, in words; empty for a recent state, and before the first reading."""
        seconds = self.age(positions)
        recent = seconds is not None and seconds < RECENT_S
        return "" if recent or not self._readings else age_text(seconds)

    def metric(self, service: str, positions: Mapping[int, Positions]) -> Metric:
        """The age of each partition at its `positions`; for an older state, the time since the first reading."""
        gauge = STATE_AGE.gauge()
        if self._readings:
            longest = time.monotonic() - self._readings[0][0]
            for partition, at in positions.items():
                seconds = self.age(at)
                gauge.add_metric([service, str(partition)], longest if seconds is None else seconds)
        return gauge

    @property
    def last(self) -> tuple[float, Positions]:
        """The last reading: its time on the monotonic clock (seconds; minus infinity before the first) and the ends."""
        return self._readings[-1] if self._readings else (-math.inf, {})

    def end(self, place: TopicPartition) -> int | None:
        """The end of `place` at the last reading, None before the first."""
        return self.last[1].get(place)

    def _try_to_refresh(self) -> None:
        try:
            self.refresh()
        except (KafkaException, Misconfigured) as error:
            log.info("the ends of the topics cannot be seen now", reason=str(error))
