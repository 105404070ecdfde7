"""What Kafka stores of a service's outputs: all, or the first ones, whatever it refuses and however long it is away."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import KafkaException, Message

from devkit.cluster.local_cluster import LocalCluster
from devkit.topics import create
from streamstate.app import App, Derived, Emit, Fold, Record, Source
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.outbox import KafkaOutbox
from streamstate.kafka.producer import LARGE_BYTES, Outgoing, Outputs, RefusedRecord, producer, send_all
from streamstate.kafka.security import OPEN
from streamstate.keys import MARKER_HEADER, TEXT, Marker
from streamstate.processing.fold_batch import FoldResult
from streamstate.releases.record import Publishing
from streamstate.state.store import Origin
from tests.integration.driving import headers
from tests.waiting import now_ms, until

DAY_MS = 86_400_000
PARTITIONS = 2
COUNT = 200
BATCH_BYTES = 1_000_000


class Topic:
    """A derived topic of its own."""

    def __init__(self, bootstrap: str, **settings: str) -> None:
        self.name, self.refused = f"keyed-{uuid4().hex[:8]}", f"letters-{uuid4().hex[:8]}"
        create(bootstrap, {self.name: settings, self.refused: {}}, PARTITIONS)
        self._history = TopicHistory(Topics(bootstrap))

    def record(self, number: int, value: bytes = b"") -> Outgoing:
        marker = Marker("id", 0, number, 0)
        return self.name, b"user %d" % (number % 7), value, [(MARKER_HEADER, marker.encode())]

    def letter(self, record: Sequence[Any]) -> Outgoing:
        return self.refused, record[1], b"", record[3]

    def first_times(self, name: str = "") -> Iterator[int]:
        """The offsets of the causes, as a reader without repeats takes them."""
        last: dict[int, int] = {}
        for message in self._history.whole(name or self.name):
            if (offset := _cause(message)) > last.get(message.partition() or 0, -1):
                last[message.partition() or 0] = offset
                yield offset


def _cause(message: Message) -> int:
    marker = Marker.from_headers(headers(message).items())
    assert marker
    return marker.offset


@pytest.mark.parametrize("away_s", [2.5, 10])
def test_a_kafka_that_is_away_for_a_while_leaves_no_gap(away_s: float, servers: LocalCluster) -> None:
    topic, broker = Topic(servers.kafka.bootstrap), psutil.Process(servers.kafka.pid)
    Outputs(servers.kafka.bootstrap, OPEN).send([topic.record(0)])
    out, back = producer(servers.kafka.bootstrap), threading.Timer(away_s, broker.resume)

    def records() -> Iterator[Outgoing]:
        for number in range(COUNT):
            if number == COUNT // 4:
                until(lambda: out.flush(0.1) == 0, "Kafka to have the first records")
                broker.suspend()
                back.start()
            out.poll(0.01)
            yield topic.record(number)

    with suppress(KafkaException) if away_s < 10 else pytest.raises(KafkaException, match="has not acknowledged"):
        send_all(out, records(), timeout_s=2)
    back.join()
    Outputs(servers.kafka.bootstrap, OPEN).send([topic.record(number) for number in range(COUNT)])
    assert sorted(topic.first_times()) == [*range(COUNT)]


@pytest.mark.parametrize("limit", [1_048_588, 10_000])
def test_records_that_are_too_large_do_not_take_others_with_them(limit: int, servers: LocalCluster) -> None:
    topic = Topic(servers.kafka.bootstrap, **{"max.message.bytes": str(limit), "compression.type": "producer"})
    outputs = Outputs(servers.kafka.bootstrap, OPEN)
    large, random = {17, 18, 90}, os.urandom
    values = [random(limit + LARGE_BYTES * (number % 2)) if number in large else random(200) for number in range(COUNT)]
    outputs.send([topic.record(number, value) for number, value in enumerate(values)], topic.letter)
    assert sorted(topic.first_times()) == [number for number in range(COUNT) if number not in large]
    assert {*topic.first_times(topic.refused)} == large


def test_after_a_refused_record_nothing_is_stored_behind_it(servers: LocalCluster) -> None:
    topic = Topic(servers.kafka.bootstrap, **{"message.timestamp.before.max.ms": str(DAY_MS)})
    outputs, old = Outputs(servers.kafka.bootstrap, OPEN), now_ms() - 3 * DAY_MS
    value = os.urandom(BATCH_BYTES // 50)
    records = [(*topic.record(number, value), old if number == COUNT // 3 else 0) for number in range(COUNT)]
    with pytest.raises(RefusedRecord) as refused:
        outputs.send(records)
    assert refused.value.record == records[COUNT // 3]
    outputs.send([topic.record(number) for number in range(COUNT)])
    assert sorted(topic.first_times()) == [*range(COUNT)]


@pytest.mark.parametrize("age_ms", [3 * DAY_MS, -3 * DAY_MS])
def test_the_cause_of_a_refused_timestamp_is_named_with_the_next_step(age_ms: int, servers: LocalCluster) -> None:
    limits = dict.fromkeys(("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"), str(DAY_MS))
    topic = Topic(servers.kafka.bootstrap, **limits)
    source: Source[Any, Any] = Source("bought", TEXT, lambda _key, value: value)
    emits = {topic.name: Derived(TEXT, dict, dated=True)}
    app = App("sales", (Fold((source,), lambda _records, _context: ()),), emits=emits)
    now, none = now_ms(), cast("Any", None)
    causes = [Record("bought", "a", b"", 6 + index, at, at) for index, at in enumerate((now, now - age_ms, now - 5))]
    result = FoldResult(4, none, [Emit(topic.name, b"a", b"{}", cause) for cause in causes], [], [])
    outputs, publishing = Outputs(servers.kafka.bootstrap, OPEN), Publishing("sales")
    outbox = KafkaOutbox(app, none, outputs, {"bought": Origin("id", 8)}, lambda: publishing)
    with pytest.raises(Misconfigured) as refused:
        outbox.publish([result])
    assert f"{topic.name} refuses the timestamp of the record from bought:4:7: set message." in str(refused.value)
    assert "`streamstate skip SERVICE bought 4 7 --reason TEXT`" in str(refused.value)
