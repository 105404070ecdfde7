"""Metrics of the state itself, as exact as the state. No label holds a key."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

from streamstate.app import LATE
from streamstate.deployment.metrics import Definition
from streamstate.processing.decode import DEAD, DEAD_FOR, MISPLACED
from streamstate.processing.fitness import LOST
from streamstate.state.store import Snapshot

OFFSET = Definition("streamstate_offset", ("service", "topic", "partition"), "next offset of the state")
BEGIN = Definition(
    "streamstate_begin_offset",
    ("service", "topic", "partition"),
    "first offset of the state; above 0, Kafka had deleted earlier records",
)
PROGRESS = Definition(
    "streamstate_build_progress",
    ("service", "partition"),
    "progress of the first build; reads are refused below 1",
)
DEAD_LETTERS = Definition(
    "streamstate_dead_letters_total",
    ("service", "partition"),
    "unusable records; read <service>-dlq",
)
MISPLACED_KEYS = Definition(
    "streamstate_misplaced_keys_total",
    ("service", "partition"),
    "keys placed by a partitioner other than the declared one",
)
LOST_RECORDS = Definition(
    "streamstate_lost_records_total",
    ("service", "partition"),
    "records deleted by Kafka before the stream read them",
)
COUNTED = Definition(
    "streamstate_counted_total",
    ("service", "partition", "what"),
    "counts of folds, such as late records",
)
BACKUP = Definition(
    "streamstate_last_backup_timestamp_seconds",
    ("service",),
    "seconds since 1970 of the last backup",
)
IN_USE = Definition(
    "streamstate_in_use",
    ("service",),
    "1: the release answers or has outputs to publish; 0: it raises no alert",
)
_OWN_COUNTERS = {DEAD: DEAD_LETTERS, MISPLACED: MISPLACED_KEYS, LOST: LOST_RECORDS}
_FROM_ZERO = dict.fromkeys((*_OWN_COUNTERS, LATE), 0)
"""Counters in alerts start from 0: an increase from a missing sample would not count."""
METRICS = (OFFSET, BEGIN, PROGRESS, *_OWN_COUNTERS.values(), COUNTED, BACKUP, IN_USE)


def of_partitions(service: str, snapshots: Mapping[int, Snapshot]) -> Iterable[Metric]:
    """The metrics of `service`, except the last backup with a sample for each of its partitions."""
    offset, begin, progress, backup = (metric.gauge() for metric in (OFFSET, BEGIN, PROGRESS, BACKUP))
    if times := [snapshot.backup for snapshot in snapshots.values() if snapshot.backup is not None]:
        backup.add_metric([service], max(times) / 1_000)
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
    return (offset, begin, progress, backup, *counters.values())


def in_use(service: str, *, used: bool) -> Metric:
    gauge = IN_USE.gauge()
    gauge.add_metric([service], used)
    return gauge
