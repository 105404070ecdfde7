"""The status of a stream, the output of `streamstate status`, and differences shown by verify."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from werkzeug.test import Client

from streamstate.deployment.spans import Spans
from streamstate.errors import Misconfigured
from streamstate.kafka import presence as presence_module
from streamstate.kafka.admin import Member, Topics
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.presence import Presence
from streamstate.spark.run import reason
from streamstate.spark.status import STILL_S, Status, application
from streamstate.state.redis import RedisStore
from streamstate.state.store import TopicPartition
from streamstate.testing import FixedTopics
from tests.collector import Collector, collecting
from tests.serving import sample
from tests.waiting import now_ms, now_s, until_equal

# What a stream says of itself: to Kubernetes, and to Prometheus.

ENDS = {("t", 0): 10, ("t", 1): 7}


class Ends(Topics):
    """Of the first partition, a transaction holds 2 records back."""

    def __init__(self) -> None:
        """Nothing is connected."""

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: ENDS[place] for place in places}

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: min(ENDS[place], 8) for place in places}

    def history(self, places: Iterable[TopicPartition]) -> dict[str, float]:
        return {topic: 60.0 for topic, _ in places}


class Away(Ends):
    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:  # noqa: ARG002
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))


@pytest.fixture
def status() -> Status:
    return Status("metrics", TopicHistory(Ends()))


def scrape(status: Status) -> str:
    return Client(application([status])).get("/metrics").get_data(as_text=True)


def test_ready_once_it_folds_and_not_after_a_failure(status: Status) -> None:
    client = Client(application([status, Status("names", TopicHistory(Ends()), folding=True)]))
    answer = client.get("/readyz")
    idle = {"status": "not folding", "services": ["metrics"], "reasons": {}}
    assert (answer.status_code, answer.get_json()) == (503, idle)
    status.folding = True
    assert client.get("/readyz").status_code == 200
    status.failed("it hangs")
    assert client.get("/readyz").status_code == 503
    assert sample(scrape(status), "streamstate_stream_failures_total", service="metrics") == 1


def test_a_refusal_is_told_until_the_next_query_starts(status: Status) -> None:
    client = Client(application([status]))
    status.refused("the topic is gone")
    assert client.get("/readyz").get_json()["reasons"] == {"metrics": "the topic is gone"}
    assert client.get("/livez").status_code == 200
    assert sample(scrape(status), "streamstate_stream_refused", service="metrics") == 1
    status.started()
    assert client.get("/readyz").get_json()["reasons"] == {}
    assert sample(scrape(status), "streamstate_stream_refused", service="metrics") == 0


def test_what_is_left_of_a_history_is_told_where_the_state_needs_it(status: Status) -> None:
    status.positions = {("t", 0): 4}
    assert sample(scrape(status), "streamstate_history_seconds", service="metrics", topic="t") is None
    status.history = {"t", "others"}
    assert sample(scrape(status), "streamstate_history_seconds", service="metrics", topic="t") == 60


def test_live_for_as_long_as_the_loop_turns(status: Status) -> None:
    client = Client(application([status]))
    assert client.get("/livez").status_code == 200
    status.turned = now_s() - STILL_S - 1
    assert client.get("/livez").get_json() == {"status": "stuck", "services": ["metrics"]}
    assert client.get("/livez").status_code == 503
    status.turn()
    assert client.get("/livez").status_code == 200


def test_offsets_are_counted_while_they_are_held(status: Status) -> None:
    status.moved({("t", 0): 4})
    status.moved({("t", 0): 6, ("t", 1): 5})
    status.moved({("t", 1): 7})
    status.moved({("t", 0): 2, ("t", 1): 6})
    found = scrape(status)
    assert sample(found, "streamstate_stream_committed_total", service="metrics") == 4
    assert sample(found, "streamstate_stream_lag", service="metrics", topic="t", partition="0") == 8
    assert sample(found, "streamstate_stream_lag", service="metrics", topic="t", partition="1") == 1
    assert sample(found, "streamstate_stream_held_back", service="metrics", topic="t", partition="0") == 2
    assert sample(found, "streamstate_stream_held_back", service="metrics", topic="t", partition="1") == 0


def test_a_stream_says_since_when_and_why_kafka_does_not_answer(status: Status) -> None:
    topics = FixedTopics({})
    topics.bootstrap = "kafka:9092"
    status.records, status.folding = TopicHistory(topics), True
    client = Client(application([status]))
    assert client.get("/readyz").status_code == 200
    topics.fall_silent(1_700_000_000)
    answer = client.get("/readyz")
    silence = "Kafka at kafka:9092 has not answered since 2023-11-14T22:13:20Z (timed out)"
    told = f"{silence}; check that it runs and has disk space"
    assert (answer.status_code, answer.get_json()) == (200, {"status": "ok", "reasons": {"metrics": told}})
    status.failed("the cause of which is the silence")
    assert client.get("/readyz").get_json() == {
        "status": "not folding",
        "services": ["metrics"],
        "reasons": {"metrics": told},
    }
    assert status.trouble == told
    topics.fall_silent(now_ms() / 1_000)
    assert status.trouble == ""


def test_without_kafka_there_is_no_lag_but_all_else(status: Status) -> None:
    status.records = TopicHistory(Away())
    status.moved({("t", 0): 4})
    found = scrape(status)
    assert sample(found, "streamstate_stream_lag") is None
    assert sample(found, "streamstate_stream_batches_total") == 0


def test_another_path_is_404(status: Status) -> None:
    assert Client(application([status])).get("/").status_code == 404


def test_partitions_that_wait_for_a_schema_are_named_and_counted(status: Status) -> None:
    client = Client(application([status]))
    status.folding, status.waiting, status.waits = True, 1, "the registry answers 403; these wait: plays:3"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.get_json()["reasons"]["metrics"] == status.waits
    assert sample(scrape(status), "streamstate_stream_waiting_for_schema", service="metrics") == 1
    status.waiting, status.waits = 0, ""
    assert client.get("/readyz").status_code == 200


def test_a_query_that_fails_again_and_again_is_not_ready_while_it_runs(status: Status) -> None:
    client = Client(application([status]))
    for _ in range(2):
        status.failed("Kafka is away")
        status.started()
        status.folding = True
        assert client.get("/readyz").status_code == 200
    status.failed("Kafka is away")
    status.started()
    status.folding = True
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.get_json()["reasons"] == {"metrics": "the query failed 3 times in a row: Kafka is away"}
    status.finished(0)
    assert client.get("/readyz").status_code == 200


# A consumer group with members of another environment.


class Group(Ends):
    """A group of these members."""

    def __init__(self) -> None:
        self.present: dict[str, Member] = {}

    def members(self, group: str) -> dict[str, Member]:  # noqa: ARG002
        return self.present


class Reports(RedisStore):
    """The reports in a Redis."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def report_trouble(self, instance: str, text: str, valid_ms: int) -> None:  # noqa: ARG002
        self.found.add(instance)

    def troubles(self, statuses: Mapping[str, str]) -> dict[str, str | None]:
        return {instance: "" if status in self.found else None for instance, status in statuses.items()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1_000.0]
    monkeypatch.setattr(presence_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_an_instance_does_not_take_the_group_of_another_environment_while_it_restarts(
    clock: Callable[[float], None],
) -> None:
    group, reports = Group(), Reports()
    presence = Presence(reports, "redis://ours", group, "shop", "shop-0", "127.0.0.1:1", 6_000, str)
    presence.require_free_group()
    group.present = {"shop-0": Member(frozenset({0}), "shop-0:them", "10.0.0.7")}
    for _ in range(2):
        with pytest.raises(Misconfigured, match=r"shop-0 \(10.0.0.7\) of the same .* group shop .*_GROUP"):
            presence.require_free_group()
        clock(20)
    group.present = {}
    with pytest.raises(Misconfigured, match="then start this instance again"):
        presence.require_free_group()
    reports.found.add("shop-0:them")
    presence.require_free_group()


def test_a_killed_member_of_an_emptied_redis_is_waited_for(clock: Callable[[float], None]) -> None:
    group, reports = Group(), Reports()
    group.present = {"shop-1": Member(frozenset({0}), "shop-1:killed"), "shop-2": Member(frozenset(), "")}
    presence = Presence(reports, "redis://ours", group, "shop", "shop-0", "127.0.0.1:1", 6_000, str)
    with pytest.raises(Misconfigured, match="shop-1"):
        presence.require_free_group()
    clock(6)
    group.present.pop("shop-1")
    presence.require_free_group()


WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/task.py", line 121, in _publish
    send_all(producer)
cimpl.KafkaException: KafkaError{code=UNKNOWN_TOPIC_OR_PART,str="Broker: Unknown topic"}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/task.py", line 9, in <module>
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Caused by: java.lang.RuntimeException: of the JVM
\t... 1 more
"""


@pytest.mark.parametrize(
    "raised",
    ["cimpl.KafkaException: it is away", "streamstate.errors.Fenced: by another", "KeyError: 'plays'", "MemoryError"],
)
def test_the_reason_is_what_the_worker_ended_with(raised: str) -> None:
    assert reason(RuntimeError(WORKER.replace("{raised}", raised))) == raised


def test_the_reason_without_a_worker_is_the_first_line_or_the_type() -> None:
    assert reason(RuntimeError("\n it is full\n\tat java\n")) == "it is full"
    assert reason(RuntimeError()) == "RuntimeError"


# Spans of micro-batches, as Spark tells them.


def progress(batch: int, rows: int) -> StreamingQueryProgress:
    told: dict[str, Any] = {
        "id": "00000000-0000-4000-8000-000000000001",
        "runId": "00000000-0000-4000-8000-000000000002",
        "name": "words-0",
        "timestamp": "2026-01-02T20:00:00.125Z",
        "batchId": batch,
        "batchDuration": 150,
        "numInputRows": rows,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "durationMs": {"addBatch": 120, "triggerExecution": 150},
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "noop", "numOutputRows": -1},
    }
    return StreamingQueryProgress.fromJson(told)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        for name, text in collector.environment.items():
            monkeypatch.setenv(name, text)
        yield collector


def test_each_batch_with_records_is_told_of_once(collector: Collector) -> None:
    spans = Spans("words-stream")
    last = spans.batches([progress(0, 3), progress(1, 0), progress(2, 5)], -1)
    assert last == 2
    assert spans.batches([progress(2, 5), progress(3, 0)], last) == 2
    assert spans.batches([progress(3, 7)], last) == 3
    until_equal(lambda: len(collector.spans), 3)
    told = collector.named("words-stream", "micro-batch")
    counts = [(span.attributes["streamstate.batch"], span.attributes["messaging.batch.message_count"]) for span in told]
    assert counts == [(0, 3), (2, 5), (3, 7)]
    assert {span.seconds for span in told} == {0.15}
    assert told[0].attributes["spark.duration_ms.addBatch"] == 120


def test_a_restarted_instance_has_the_name_that_kafka_keeps_for_its_member() -> None:
    group, reports = Group(), Reports()
    group.present = {"shop-0": Member(frozenset({0}), "shop-0:killed")}
    reports.found = {"shop-0:killed"}
    presence = Presence(reports, "redis://ours", group, "shop", "shop-0", "127.0.0.1:1", 6_000, str)
    presence.require_free_group()
    assert presence.process == "killed"
    # The report of the killed process ends.
    reports.found.clear()
    presence.report()
    assert reports.found == {"shop-0:killed"}
