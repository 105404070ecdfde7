"""Which records were dead-lettered since they came from the future, read from the dead-letter topic.

The clock has gone on since then, and would decide otherwise.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from confluent_kafka import OFFSET_BEGINNING

from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.dead_letters import cause_of, stage_of
from streamstate.kafka.reading import read_to_end
from streamstate.kafka.security import OPEN, Security
from streamstate.state.store import Origin, TopicPartition


def refused_timestamps(
    bootstrap: str, topics: Topics, dead_letters: str, origins: Mapping[str, Origin], security: Security = OPEN
) -> Mapping[TopicPartition, Collection[int]]:
    """The offsets that the topic `dead_letters` names of topics with these `origins`; none without such a topic."""
    try:
        partitions = topics.partitions(dead_letters)
    except Misconfigured:
        return {}
    names = {origin.id: topic for topic, origin in origins.items()}
    refused: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    starts = {(dead_letters, partition): OFFSET_BEGINNING for partition in range(partitions)}
    for letter in read_to_end(bootstrap, starts, security):
        if stage_of(letter) == "timestamp" and (cause := cause_of(letter)) and cause[0] in names:
            topic_id, partition, offset = cause
            refused[names[topic_id], partition].add(offset)
    return refused
