"""A service over a derived topic, on a real Kafka and Spark: what was sent again counts once."""

from collections import Counter, defaultdict
from random import Random

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic

from services.names.model import ENRICHED
from streamstate.kafka.producer import producer
from streamstate.keys import LONG, Marker
from streamstate.operators.repeats import REPEATS
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore, connect
from tests.integration.driving import Driving
from tests.waiting import until

NAME, TOPIC, DLQ = "chained", "enriched-again", "chained-dlq"


def test_what_was_sent_again_counts_once(driving: Driving) -> None:
    cluster = driving.cluster
    partitions: defaultdict[int, list[Message]] = defaultdict(list)
    for record in driving.read(ENRICHED):
        partitions[record.partition() or 0].append(record)
    admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(TOPIC, len(partitions), 1), NewTopic(DLQ, 1, 1)]).values():
        created.result()
    out = producer(cluster.kafka.bootstrap)
    for partition, records in partitions.items():
        for record in [*records, *records[Random(partition).randrange(len(records)) :]]:
            out.produce(TOPIC, record.value(), record.key(), partition, headers=record.headers())
    out.flush()

    store = RedisStore(connect(cluster.redis.url, 5.0), NAME)
    stream = cluster.deployment("tests.integration.chained", NAME, {ENRICHED: TOPIC})
    stream.start()
    try:
        ends = Counter(record.partition() or 0 for record in driving.read(TOPIC))
        wanted = {partition: [Fields("plays")] for partition in partitions}

        def reached() -> bool:
            snapshots = store.read(wanted)
            return {p: snapshot.positions.get(TOPIC, 0) for p, snapshot in snapshots.items()} == ends

        until(reached, 120, "the copied records")
    finally:
        stream.stop()
    for partition, snapshot in store.read(wanted).items():
        users = {Marker.from_headers(record.headers()): LONG.decode(record.key()) for record in partitions[partition]}
        assert snapshot.values == [dict(Counter(map(str, users.values())))]
        assert snapshot.counters[REPEATS] == ends[partition] - len(users)
