"""How merged topics are cut into slices: each is bounded, and folds in the same order as all records at once."""

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from secrets import token_hex

import psutil
import pytest
from confluent_kafka import Message, Producer

from devkit.cluster.local_cluster import answers
from devkit.servers.child_process import LOCALHOST, Child, free_port
from services.clicks.model import APP, CLICKS_PER_REGION, USER_CLICKS, USER_REGIONS
from streamstate.kafka.admin import Topics
from streamstate.processing.decode import RawRecord
from streamstate.spark.offsets import Offsets, next_slice
from streamstate.state.store import TopicPartition
from tests.deployment import Deployment
from tests.integration.driving import parts, read
from tests.integration.releases import Releases
from tests.serving import sample, scraped
from tests.stream_host import StreamHost
from tests.waiting import pause, until

MOST, PARTITIONS, MINUTE_MS, HOUR_MS = 400, 2, 60_000, 3_600_000
HOUR = 1_700_000_000_000
"""What all records of an hour have as their timestamp."""

Log = dict[TopicPartition, list[RawRecord]]
Sent = tuple[dict[str, str], Log]
"""The topics with the backlog by the app's names, and their contents."""


def backlog() -> Iterator[tuple[str, int, bytes, bytes, int]]:
    """Clicks of moving users: topic, partition, key, value, timestamp.

    Most are in one partition, all are late by minutes, 1,500 are of one moment, and the last part has no moves.
    """
    draw, moment = random.Random(1), HOUR - HOUR_MS
    for number in range(6_000):
        moment += 1_000
        same = 2_000 <= number < 3_500
        timestamp = HOUR if same else moment - draw.randrange(3 * MINUTE_MS) + HOUR_MS * (number >= 3_500)
        partition = 0 if draw.random() < 0.9 else 1
        user = b"%d" % draw.randrange(9)
        if number < 4_500 and draw.random() < 0.3:
            yield USER_REGIONS, partition, user, draw.choice([b"north", b"south", b"east"]), timestamp
        else:
            yield USER_CLICKS, partition, user, b"1", timestamp


@pytest.fixture(scope="module")
def sent(releases: Releases) -> Sent:
    names = {topic: f"slices-{topic}" for topic in APP.topics}
    releases.create(*names.values(), partitions=PARTITIONS)
    for topic, partition, key, value, timestamp in backlog():
        releases.out.produce(names[topic], value, key, partition, timestamp=timestamp)
    releases.out.flush()
    log = {(topic, p): list[RawRecord]() for topic in APP.topics for p in range(PARTITIONS)}
    for topic, name in names.items():
        for message in read(releases.cluster, name):
            log[topic, message.partition() or 0].append(raw(message))
    return names, log


def raw(message: Message) -> RawRecord:
    return message.offset() or 0, message.timestamp()[1], message.key(), message.value()


def slices(releases: Releases, names: dict[str, str]) -> list[Offsets]:
    """Where each slice ends, the last one at the ends of the topics."""
    topics = Topics(releases.cluster.kafka.bootstrap)
    starts = {(names[topic], p): 0 for topic in APP.topics for p in range(PARTITIONS)}
    found = []
    while ends := next_slice(topics, starts, MOST, {}):
        found.append(ends)
        starts = ends
    plain = {name: topic for topic, name in names.items()}
    return [{(plain[name], p): end for (name, p), end in ends.items()} for ends in (*found, topics.ends(starts))]


def test_slices_are_in_the_order_of_stream_time(releases: Releases, sent: Sent) -> None:
    """At a tie, in the order of the topics."""
    names, log = sent
    order = {
        (topic, p): [(time, APP.topics.index(topic)) for time in accumulate((record[1] for record in records), max)]
        for (topic, p), records in log.items()
    }
    for partition, ends in itertools.product(range(PARTITIONS), slices(releases, names)):
        places = [(topic, partition) for topic in APP.topics]
        done = [at for place in places for at in order[place][: ends[place]]]
        left = [at for place in places for at in order[place][ends[place] :]]
        assert not done or not left or max(done) <= min(left)


@dataclass(frozen=True)
class Backlogged:
    """A stream of clicks that reads small slices; `topic` has the clicks."""

    releases: Releases
    stream: Child
    topic: str
    status: str

    def send(self, clicks: int) -> None:
        """Send a transaction, which is one micro-batch."""
        settings = {"bootstrap.servers": self.releases.cluster.kafka.bootstrap, "log_level": 0}
        out = Producer({**settings, "transactional.id": self.topic, "partitioner": "murmur2_random"})
        out.init_transactions(30)
        out.begin_transaction()
        for _ in range(clicks):
            out.produce(self.topic, b"1", b"slices")
        out.commit_transaction()

    def runs(self) -> bool:
        """Whether the query has finished a micro-batch; sends a click for one."""
        self.send(1)
        return (
            answers(f"http://{self.status}/readyz")
            and (sample(scraped(self.status), "streamstate_stream_batches_total") or 0) > 0
        )


@pytest.fixture
def backlogged(releases: Releases) -> Iterator[Backlogged]:
    """Its state is checked at the end."""
    name, port = f"clicks-{token_hex(4)}", free_port()
    topics = {topic: f"{name}-{topic}" for topic in (*APP.topics, CLICKS_PER_REGION)}
    with releases.released(APP, name, topics, BATCH_RECORDS="2000", STATUS_PORT=str(port)) as stream:
        yield Backlogged(releases, stream, topics[USER_CLICKS], f"{LOCALHOST}:{port}")


def test_what_comes_at_once_is_folded_slice_by_slice(backlogged: Backlogged) -> None:
    """The records of a transaction are one micro-batch: here more than a task takes."""
    until(backlogged.runs, "the query to run")
    backlogged.send(5_000)
    until(lambda: "folded slice by slice" in backlogged.stream.tail(500), "the slices")


def test_a_worker_that_is_killed_while_slices_are_folded_ends_no_other_query(
    backlogged: Backlogged, deployment: Deployment, host: StreamHost
) -> None:
    deployment.build()
    backlogged.send(20_000)
    until(lambda: "a part of the backlog is folded" in backlogged.stream.tail(500), "the first slice")
    for _ in range(20):
        with suppress(psutil.NoSuchProcess):
            for worker in parts(host)["worker"]:
                worker.kill()
        pause(0.2)
    deployment.send(10)
    deployment.folded(110)
