"""A service over a derived topic, on a real Kafka and Spark: repeated records count once."""

from collections import Counter
from random import Random

from services.names.model import ENRICHED
from streamstate.keys import LONG, MARKER_HEADER, Marker, partition_of
from streamstate.operators.repeats import REPEATS
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from tests.integration.releases import PARTITIONS, Releases
from tests.waiting import until

NAME, TOPIC, DLQ = "chained", "enriched-again", "chained-dlq"
RECORDS, USERS = 2_000, 50


def test_what_was_sent_again_counts_once(releases: Releases) -> None:
    """Each partition has its records, and again all from a random record on."""
    draw = Random(1)
    releases.create(TOPIC, DLQ)
    plays: list[list[tuple[int, Marker]]] = [[] for _ in range(PARTITIONS)]
    for number in range(RECORDS):
        user = draw.randrange(USERS)
        partition = partition_of(LONG.encode(user), PARTITIONS)
        plays[partition].append((user, Marker("a-topic", partition, number // 3, number % 3)))
    sent = [[*each, *each[draw.randrange(len(each)) :]] for each in plays]
    for partition, records in enumerate(sent):
        for user, marker in records:
            releases.out.produce(TOPIC, b"{}", LONG.encode(user), partition, headers={MARKER_HEADER: marker.encode()})
    releases.out.flush()

    store = RedisStore(connect(releases.cluster.redis.url, 5.0), NAME)
    wanted = {partition: [Fields("plays")] for partition in range(PARTITIONS)}

    def reached() -> bool:
        return [store.read(wanted)[p].positions.get(TOPIC, 0) for p in wanted] == list(map(len, sent))

    with releases.make("tests.integration.chained", NAME, {ENRICHED: TOPIC}):
        until(reached, 120, "the copied records")
    for partition, snapshot in store.read(wanted).items():
        assert snapshot.values == [dict(Counter(str(user) for user, _ in plays[partition]))]
        assert snapshot.counters[REPEATS] == len(sent[partition]) - len(plays[partition])
