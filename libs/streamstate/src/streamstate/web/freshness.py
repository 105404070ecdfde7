"""How fresh an answer is: told with every answer.

The state at offset o of a topic's partition has all that was in Kafka when o was that partition's end. So its age needs
no help of the stream: an API looks at the ends by itself, every now and then.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from confluent_kafka import KafkaException

from streamstate.deployment.background import keep_running
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.state.store import TopicPartition
from streamstate.web.http.request import AGE, POSITION

log = structlog.get_logger()

LOOK_S = 0.5
_SEEN = 600

Positions = Mapping[TopicPartition, int]
"""Next offsets."""


def offsets_text(offsets: Positions) -> str:
    """Offsets as headers have them: `topic:partition=offset`, separated by commas."""
    return ", ".join(f"{topic}:{partition}={offset}" for (topic, partition), offset in offsets.items())


@dataclass
class History:
    """The ends of partitions as they were seen, for some minutes back. Moments are seconds of one clock."""

    _seen: defaultdict[TopicPartition, deque[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_SEEN))
    )

    def add(self, now: float, ends: Positions) -> None:
        for place, end in ends.items():
            self._seen[place].append((now, end))

    def age(self, now: float, positions: Positions) -> float | None:
        """Seconds since a state at `positions` had everything; None when it never had since the first look."""
        oldest = now
        for place, position in positions.items():
            for moment, end in reversed(self._seen[place]):
                if end <= position:
                    oldest = min(oldest, moment)
                    break
            else:
                return None
        return now - oldest if positions else None

    def end(self, place: TopicPartition) -> int | None:
        """The end of `place` at the last look, None before the first one."""
        seen = self._seen.get(place)
        return seen[-1][1] if seen else None


class Freshness:
    """The ends of an app's topics, seen again and again. Safe for threads."""

    def __init__(self, topics: Topics, names: Sequence[str]) -> None:
        self._topics = topics
        self._names = names
        self._history = History()
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Look at the ends for as long as the process lives."""
        keep_running("freshness", self._try_to_look, LOOK_S)

    def look(self) -> None:
        """See where the topics end now. Raises `KafkaException` or `Misconfigured` when Kafka does not say."""
        places = [(topic, p) for topic in self._names for p in range(self._topics.partitions(topic))]
        now = time.monotonic()
        ends = self._topics.ends(places)
        with self._lock:
            self._history.add(now, ends)

    def widths(self) -> Mapping[str, int]:
        """The partition counts of those topics that Kafka has told of; never waits for Kafka."""
        known = {topic: self._topics.known(topic) for topic in self._names}
        return {topic: origin.partitions for topic, origin in known.items() if origin is not None}

    def headers(self, positions: Positions) -> dict[str, str]:
        """What an answer says of the state that it comes from."""
        told = {POSITION: offsets_text(positions)}
        age = self.age(positions)
        return told if age is None else {**told, AGE: f"{age * 1000:.0f}"}

    def age(self, positions: Positions) -> float | None:
        """Seconds since a state at `positions` had everything, None when that is not known."""
        with self._lock:
            return self._history.age(time.monotonic(), positions)

    def end(self, place: TopicPartition) -> int | None:
        """Where `place` ended at the last look, None before the first one."""
        with self._lock:
            return self._history.end(place)

    def _try_to_look(self) -> None:
        try:
            self.look()
        except (KafkaException, Misconfigured) as error:
            log.info("the ends of the topics cannot be seen now", reason=str(error))
