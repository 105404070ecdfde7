"""Spans of micro-batches, as Spark tells them."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from streamstate.deployment.spans import Spans
from tests.collector import Collector, collecting
from tests.serving import until


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
    until(lambda: len(collector.spans) == 3)
    told = collector.named("words-stream", "micro-batch")
    counts = [(span.attributes["streamstate.batch"], span.attributes["messaging.batch.message_count"]) for span in told]
    assert counts == [(0, 3), (2, 5), (3, 7)]
    assert {span.seconds for span in told} == {0.15}
    assert told[0].attributes["spark.duration_ms.addBatch"] == 120
