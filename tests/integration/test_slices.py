"""How merged topics are cut into slices: of a bounded size, and each has earlier stream times than the next."""

import random
from itertools import accumulate

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from devkit.local_cluster import LocalCluster
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer
from streamstate.spark.offsets import next_slice
from streamstate.state.store import TopicPartition

RECORDS, MOST = 3_000, 400
TOPICS = {"slices-a": 2, "slices-b": 1}


def test_a_backlog_is_read_slice_by_slice_in_order_of_stream_time(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        created.result()
    timestamps = send(cluster)
    topics = Topics(cluster.kafka.bootstrap)
    starts: dict[TopicPartition, int] = dict.fromkeys(timestamps, 0)
    latest, slices = 0, 0
    while ends := next_slice(topics, starts, MOST, {}):
        read = [t for place, end in ends.items() for t in timestamps[place][starts[place] : end]]
        left = [t for place, end in ends.items() for t in timestamps[place][end:]]
        assert 0 < len(read) <= MOST
        assert latest <= min(read)
        assert max(read) < min(left)
        starts, latest, slices = ends, max(read), slices + 1
    assert sum(len(timestamps[place]) - start for place, start in starts.items()) <= MOST
    assert slices >= RECORDS // MOST - 1


def test_records_of_one_moment_are_one_slice(cluster: LocalCluster) -> None:
    topic = "slices-moment"
    admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    out = producer(cluster.kafka.bootstrap)
    for timestamp in [5] * 50 + [9]:
        out.produce(topic, b"", timestamp=timestamp)
    out.flush()
    assert next_slice(Topics(cluster.kafka.bootstrap), {(topic, 0): 0}, 10, {}) == {(topic, 0): 50}


def send(cluster: LocalCluster) -> dict[TopicPartition, list[int]]:
    """Records with timestamps that are not in order; returns the stream times by place, in the order of the offsets."""
    draw = random.Random(1)
    out = producer(cluster.kafka.bootstrap)
    sent: dict[TopicPartition, list[int]] = {(topic, p): [] for topic, count in TOPICS.items() for p in range(count)}
    for number in range(RECORDS):
        topic, partition = draw.choice(list(sent))
        timestamp = 1_000_000 + 10 * number + draw.randrange(2_000)
        sent[topic, partition].append(timestamp)
        out.produce(topic, b"", partition=partition, timestamp=timestamp)
    out.flush()
    return {place: list(accumulate(times, max)) for place, times in sent.items()}
