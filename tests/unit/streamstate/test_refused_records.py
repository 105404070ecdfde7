"""Records that Kafka refuses, named by their causes."""

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from streamstate.app import App, Derived, Emit, Fold, Record, Source
from streamstate.errors import Misconfigured
from streamstate.kafka.outbox import KafkaOutbox
from streamstate.keys import TEXT
from streamstate.processing.fold_batch import FoldResult
from streamstate.releases.record import Voice
from streamstate.state.store import Origin
from tests.waiting import now_ms

DAY_MS = 86_400_000
SOURCE: Source[Any, Any] = Source("bought", TEXT, lambda _key, value: value)
APP = App("sales", (Fold((SOURCE,), lambda _records, _context: ()),), emits={"keyed": Derived(TEXT, dict, dated=True)})


class Refusing:
    """A producer into a topic that refuses a timestamp, and so the whole batch."""

    def produce(self, *_record: Any, on_delivery: Any, **_further: Any) -> None:
        on_delivery(KafkaError(KafkaError.INVALID_TIMESTAMP), None)

    def poll(self, _seconds: float) -> None:
        """Nothing waits."""

    def flush(self) -> None:
        """Nothing waits."""


@pytest.mark.parametrize("age_ms", [3 * DAY_MS, -3 * DAY_MS])
def test_the_cause_of_a_refused_timestamp_is_named_with_the_next_step(age_ms: int) -> None:
    now, none = now_ms(), cast("Any", None)
    causes = [Record("bought", "a", b"", 6 + index, at, at) for index, at in enumerate((now, now - age_ms, now - 5))]
    result = FoldResult(4, none, [Emit("keyed", b"a", b"{}", cause) for cause in causes], [], [])
    origins = {"bought": Origin("id", 8)}
    outbox = KafkaOutbox(APP, none, cast("Any", Refusing), origins, lambda: Voice("sales"), none)
    with pytest.raises(Misconfigured) as refused:
        outbox.publish([result])
    assert "keyed refuses the timestamp of the record from bought:4:7: set message.timestamp" in str(refused.value)
    assert "`streamstate skip SERVICE bought 4 7 --reason TEXT`" in str(refused.value)
