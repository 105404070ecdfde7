"""What the state tells Prometheus of itself: these counts are as exact as the state. No label holds a key."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

from streamstate.deployment.metrics import Definition
from streamstate.operators.windows import LATE
from streamstate.processing.decode import DEAD, DEAD_FOR, MISPLACED
from streamstate.processing.truncation import LOST
from streamstate.state.store import Snapshot

OFFSET = Definition("streamstate_offset", ("service", "topic", "partition"), "the next offset of the state")
BEGIN = Definition(
    "streamstate_begin_offset",
    ("service", "topic", "partition"),
    "the offset at which the build of the state began; above 0, Kafka had deleted the records before it",
)
PROGRESS = Definition(
    "streamstate_build_progress",
    ("service", "partition"),
    "how much of the first build of the state is done, 0 to 1; reads are refused below 1",
)
DEAD_LETTERS = Definition(
    "streamstate_dead_letters_total",
    ("service", "partition"),
    "records that could not be used; read them in <service>-dlq",
)
MISPLACED_KEYS = Definition(
    "streamstate_misplaced_keys_total",
    ("service", "partition"),
    "keys that another partitioner than murmur2 placed; set partitioner=murmur2_random in that producer",
)
LOST_RECORDS = Definition(
    "streamstate_lost_records_total",
    ("service", "partition"),
    "records that Kafka had deleted before they were read; the state lacks them for good",
)
COUNTED = Definition(
    "streamstate_counted_total",
    ("service", "partition", "what"),
    "what the service's folds count, such as records that came too late for their window",
)
_OWN_COUNTERS = {DEAD: DEAD_LETTERS, MISPLACED: MISPLACED_KEYS, LOST: LOST_RECORDS}
_FROM_ZERO = dict.fromkeys((*_OWN_COUNTERS, LATE), 0)
"""What alerts watch: an increase from no sample at all would be none."""
METRICS = (OFFSET, BEGIN, PROGRESS, *_OWN_COUNTERS.values(), COUNTED)


def of_partitions(service: str, snapshots: Mapping[int, Snapshot]) -> Iterable[Metric]:
    """The metrics of `service` with a sample for each of its partitions."""
    offset, begin, progress = (metric.gauge() for metric in (OFFSET, BEGIN, PROGRESS))
    counters = {metric: metric.counter() for metric in (*_OWN_COUNTERS.values(), COUNTED)}
    for partition, snapshot in snapshots.items():
        for topic, position in snapshot.positions.items():
            offset.add_metric([service, topic, str(partition)], position)
        for topic, first in snapshot.begins.items():
            begin.add_metric([service, topic, str(partition)], first)
        progress.add_metric([service, str(partition)], snapshot.progress(snapshot.targets))
        for name, count in (_FROM_ZERO | dict(snapshot.counters)).items():
            if name.startswith(DEAD_FOR):
                continue
            of_folds = [] if name in _OWN_COUNTERS else [name]
            counters[_OWN_COUNTERS.get(name, COUNTED)].add_metric([service, str(partition), *of_folds], count)
    return (offset, begin, progress, *counters.values())
