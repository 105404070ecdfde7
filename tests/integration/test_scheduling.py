"""Streams in one Spark, with more work than it has slots."""

from contextlib import ExitStack

from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from tests.integration.releases import Releases
from tests.integration.slow.model import TOPIC
from tests.waiting import until, until_equal

STREAMS = [f"slow-{letter}" for letter in "abcdefghijz"]
"""More than the slots of the host, and of batches that are planned."""

RECORDS, BATCH_RECORDS = 60_000, 1_000


def test_a_stream_beside_busy_streams_gets_its_turn(releases: Releases) -> None:
    *busy, last = STREAMS
    topics = {name: {TOPIC: f"{TOPIC}-{'last' if name == last else 'busy'}"} for name in STREAMS}
    releases.create(*(f"{name}-dlq" for name in STREAMS), partitions=1)
    releases.create(*{of[TOPIC] for of in topics.values()}, partitions=1)
    client = connect(releases.cluster.redis.url, 5.0)

    def position(name: str) -> int:
        return RedisStore(client, name).read({0: []})[0].positions.get(topics[name][TOPIC], 0)

    for number in range(RECORDS):
        releases.out.produce(topics[busy[0]][TOPIC], b"%d" % number, b"key")
    releases.out.flush()
    with ExitStack() as held:
        held.callback(client.close)
        for name in STREAMS:
            own = {"BATCH_RECORDS": str(BATCH_RECORDS)}
            stream = releases.make("tests.integration.slow", name, topics[name], **own)
            stream.start()
            held.callback(stream.stop)
        until(lambda: sum(position(name) > 0 for name in busy) > len(busy) // 2, "busy streams")
        releases.out.produce(topics[last][TOPIC], b"one", b"key")
        releases.out.flush()
        until_equal(lambda: position(last), 1, f"the turn of {last}")
        assert max(position(name) for name in busy) < RECORDS
