"""What a change did to clients and to derived topics, against what is to be reached."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from devkit.bench.watchers.listeners import Heard
from devkit.change.cycle import BEFORE, Cycle
from devkit.change.load import ReadsSeen, total
from devkit.measured import Row
from services.notifications.model import NOTIFICATIONS, TICK
from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import read_to_end
from streamstate.keys import Marker

SWITCHES = 3
"""The promotions and the way back of a cycle: each may tell one event to a watcher."""


def of_cycle(cycle: Cycle, differing: int) -> Iterator[Row]:
    """The rows of one cycle; `differing` are keys of the new release that differ from the recount."""
    steps: Mapping[str, ReadsSeen] = dict(cycle.reads)
    reads = total([of_step for _, of_step in cycle.reads])
    name = cycle.service
    kinds = ", ".join(f"{step} {dict(each.failed)}" for step, each in cycle.reads if each.failed)
    yield Row(f"{name}: failed reads of {len(reads.ms):,}{f' ({kinds})' if kinds else ''}", reads.failed.total(), 0)
    yield Row(f"{name}: answers of two releases", reads.mixed, 0)
    yield Row(f"{name}: keys that differ from the recount", differing, 0)
    yield Row(f"{name}: p99 of reads during the build over before", steps["wait"].p99 / steps[BEFORE].p99, 2)
    yield Row(f"{name}: seconds of back", cycle.answer("back")["seconds"], 1)


def of_watchers(heard: Mapping[int, Heard], opened: Mapping[int, int], cycles: Sequence[Cycle]) -> Iterator[Row]:
    """The rows of streams of users without new events. opened: events of each before the first cycle."""
    most = max((len(each.events) - opened[user] for user, each in heard.items()), default=0)
    yield Row(f"broken streams of {len(heard):,}", sum(each.ended for each in heard.values()), 0)
    yield Row("most events of a stream, for all switches", most, SWITCHES * len(cycles))


def of_messages(kafka: str, topics: Topics) -> Iterator[Row]:
    """The rows of the derived topic of messages: one for each tick, by its marker."""
    places = {(NOTIFICATIONS.topic, p): 0 for p in range(topics.partitions(NOTIFICATIONS.topic))}
    tick_id = topics.origin(TICK).id
    found: Counter[tuple[int, int]] = Counter()
    for message in read_to_end(kafka, places):
        marker = Marker.from_headers(message.headers())
        if marker and marker.topic_id == tick_id:
            found[marker.partition, marker.offset] += 1
    ticks = topics.ends([(TICK, p) for p in range(topics.partitions(TICK))])
    sent = sum(ticks.values())
    yield Row(f"repeated messages of {sent:,} ticks", found.total() - len(found), 0)
    yield Row("missing messages", sent - len(found), 0)
