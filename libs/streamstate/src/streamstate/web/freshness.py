"""How fresh an answer is: told with every answer, and demanded by a request.

The state at offset o of a topic's partition has all that was in Kafka when o was that partition's end. So its age needs
no help of the stream: an API looks at the ends by itself, every now and then.
"""

import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from confluent_kafka import KafkaException
from flask import request

from streamstate.errors import Misconfigured
from streamstate.kafka import Topics
from streamstate.web.deadline import ENTRY_PATTERN, MAX_STALENESS, MIN_POSITION, Deadline
from streamstate.web.problems import Problem, not_ready

log = structlog.get_logger()

POSITION = "Position"
"""The next offsets of the state that answered: `topic:partition=offset`, separated by commas."""

AGE = "State-Age-Ms"
"""Milliseconds since the state was last known to have all that its topics held; absent when that is long ago."""

LOOK_S = 0.5
PAUSE_S = 0.05
MARGIN_S = 0.1
"""What is left of the deadline when waiting ends, for the answer's way back."""

_SEEN = 600
_ENTRY = re.compile(rf"\s*{ENTRY_PATTERN}\s*", re.ASCII)

Place = tuple[str, int]
"""Topic and partition."""

Positions = Mapping[Place, int]
"""Next offsets."""

T = TypeVar("T")


@dataclass
class History:
    """The ends of partitions as they were seen, for some minutes back. Moments are seconds of one clock."""

    _seen: defaultdict[Place, deque[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_SEEN))
    )

    def add(self, now: float, ends: Positions) -> None:
        for place, end in ends.items():
            self._seen[place].append((now, end))

    def age(self, now: float, positions: Positions) -> float | None:
        """Seconds since a state at `positions` had everything; None when it never had since the first look."""
        ages = [self._age(now, place, position) for place, position in positions.items()]
        known = [age for age in ages if age is not None]
        return max(known) if known and len(known) == len(ages) else None

    def _age(self, now: float, place: Place, position: int) -> float | None:
        current = next((moment for moment, end in reversed(self._seen[place]) if end <= position), None)
        return None if current is None else now - current


@dataclass(frozen=True)
class Demand:
    """What a request wants of the state that answers it. Positions of other partitions than the answer's are met."""

    positions: Positions
    staleness_s: float | None

    @classmethod
    def of_request(cls) -> "Demand":
        """From `X-Min-Position` and `X-Max-Staleness` (milliseconds); raises a 400 `Problem` for other texts."""
        wanted = request.headers.get(MIN_POSITION, "")
        positions: dict[Place, int] = {}
        for text in wanted.split(",") if wanted else []:
            entry = _ENTRY.fullmatch(text)
            if entry is None:
                raise Problem(400, "bad-demand", f"{MIN_POSITION} is topic:partition=offset, separated by commas")
            place = (entry[1], int(entry[2]))
            positions[place] = max(positions.get(place, 0), int(entry[3]))
        staleness = request.headers.get(MAX_STALENESS)
        if staleness is not None and not (staleness.isascii() and staleness.isdigit() and len(staleness) < 10):
            raise Problem(400, "bad-demand", f"{MAX_STALENESS} is a whole number of milliseconds")
        return cls(positions, None if staleness is None else int(staleness) / 1000)

    def __bool__(self) -> bool:
        """Whether anything is demanded."""
        return bool(self.positions) or self.staleness_s is not None

    def too_old(self, age: float | None) -> bool:
        return self.staleness_s is not None and (age is None or age > self.staleness_s)

    def lacking(self, positions: Positions, age: float | None) -> str:
        """How far the state is from what is wanted, empty when it is there."""
        for place, wanted in self.positions.items():
            missing = wanted - positions.get(place, wanted)
            if missing > 0:
                return f"partition {place[1]} of {place[0]} is {missing} records before the position that is demanded"
        if self.too_old(age):
            return "the state has long been behind" if age is None else f"the state is {age * 1000:.0f} ms old"
        return ""


class Freshness:
    """The ends of an app's topics, seen again and again. Safe for threads."""

    def __init__(self, topics: Topics, names: Sequence[str]) -> None:
        self._topics = topics
        self._names = names
        self._history = History()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Look at the ends for as long as the process lives."""
        threading.Thread(target=self._run, name="freshness", daemon=True).start()

    def look(self, places: Iterable[Place]) -> None:
        """See where `places` end now. Raises `KafkaException` when Kafka is away."""
        now = time.monotonic()
        ends = self._topics.ends(places)
        with self._lock:
            self._history.add(now, ends)

    def demanded(self, read: Callable[[], T], positions: Callable[[T], Positions], deadline: Deadline) -> T:
        """What `read` gives as soon as it is as fresh as this request demands.

        Raises a 503 `Problem` that says how far it is when it is not within the deadline.
        """
        demand = Demand.of_request()
        if not demand:
            return read()
        while True:
            found = read()
            at = positions(found)
            if demand.too_old(self._age(at)):
                self.look(at)
            lacking = demand.lacking(at, self._age(at))
            if not lacking:
                return found
            if deadline.left < MARGIN_S:
                raise not_ready(lacking)
            time.sleep(PAUSE_S)

    def headers(self, positions: Positions) -> dict[str, str]:
        """What an answer says of the state that it comes from."""
        told = {POSITION: ", ".join(f"{topic}:{p}={offset}" for (topic, p), offset in positions.items())}
        age = self._age(positions)
        return told if age is None else {**told, AGE: f"{age * 1000:.0f}"}

    def _age(self, positions: Positions) -> float | None:
        with self._lock:
            return self._history.age(time.monotonic(), positions)

    def _run(self) -> None:
        while True:
            try:
                self.look((topic, p) for topic in self._names for p in range(self._topics.partitions(topic)))
            except (KafkaException, Misconfigured) as error:
                log.info("the ends of the topics cannot be seen now", reason=str(error))
            time.sleep(LOOK_S)
