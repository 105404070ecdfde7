"""How far states in Redis have folded their topics."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from streamstate import bootstrap
from streamstate.kafka.admin import Topics
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.store import TopicPartition

REDIS_S = 60.0
PAUSE_S = 0.3

Ends = Mapping[str, Mapping[TopicPartition, int]]
"""End offsets by state, topic and partition."""


class States:
    """The states of the Redis at `redis` (a URL). inputs: the topics that a state folds, by the name of its app."""

    def __init__(self, kafka: Topics, redis: str, inputs: Mapping[str, Iterable[str]]) -> None:
        self._kafka = kafka
        self._inputs = inputs
        self.client = connect(redis, REDIS_S)

    def store(self, name: str) -> RedisStore:
        """The state of an app."""
        return bootstrap.store_over(self.client, name)

    def ends(self) -> Ends:
        """Where the topics end now. Raises `KafkaException`."""
        return {name: self._kafka.ends(self._places(name)) for name in self._inputs}

    def positions(self, name: str) -> dict[TopicPartition, int]:
        """The next offsets of a state."""
        places = list(self._places(name))
        snapshots = self.store(name).read({partition: [] for _, partition in places})
        return {(topic, p): snapshots[p].positions.get(topic, 0) for topic, p in places}

    def folded(self) -> int:
        """The sum of the positions of all states: records, of topics that begin at 0."""
        return sum(sum(self.positions(name).values()) for name in self._inputs)

    def behind(self, ends: Ends) -> int:
        """How many records the states have yet to fold until all stand at `ends`."""
        missing = 0
        for name, offsets in ends.items():
            positions = self.positions(name)
            missing += sum(max(0, end - positions[place]) for place, end in offsets.items())
        return missing

    def caught_up(self, ends: Ends | None = None) -> bool:
        """Whether the states stand at `ends`, or where the topics end now; false while a server does not answer.

        Pauses before it returns false: questions without pause take CPU time from the streams.
        """
        with suppress(RedisError, KafkaException):
            if self.behind(self.ends() if ends is None else ends) == 0:
                return True
        time.sleep(PAUSE_S)
        return False

    def _places(self, name: str) -> Iterable[TopicPartition]:
        return ((topic, p) for topic in self._inputs[name] for p in range(self._kafka.partitions(topic)))
