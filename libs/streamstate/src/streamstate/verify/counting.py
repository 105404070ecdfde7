"""The recount of one partition, and what the library itself keeps of it: times, counts, what is sent out."""

from collections import Counter
from collections.abc import Callable, Mapping

from confluent_kafka import Message, murmur2

from streamstate.state.operations import LARGE_NUMBERS
from streamstate.state.store import Origin
from streamstate.verify.derived_topics import Effects, dead_content
from streamstate.verify.recount import Recounted, unequal
from streamstate.verify.refused_records import RefusedRecords
from streamstate.verify.topic_log import Log


class Rewound(Exception):
    """The state went back while it was looked at: it was emptied, or its server lost something."""


_REASON = "count:dead_letters: "
"""What the fields begin with that count dead letters by their reasons."""

NOTICED = 1_000
"""Records from one call of `notice` to the next."""


class Counting:
    """The recount of one partition, brought forward to where the state stands.

    notice: called with the sum of the offsets that are reached, every now and then.
    """

    def __init__(
        self,
        recounted: Recounted,
        partition: int,
        origins: Mapping[str, Origin],
        logs: Mapping[str, Log],
        refused: RefusedRecords,
        notice: Callable[[int], None],
    ) -> None:
        self.recount = recounted.make()
        self.reached = dict.fromkeys(logs, 0)
        self.records = 0
        self.dead = {topic: Effects() for topic in logs}
        self.published = {topic: Effects() for topic in logs}
        self._recounted = recounted
        self._partition = partition
        self._origins = origins
        self._refused = refused
        self._logs = logs
        self._notice = notice
        self._times: dict[str, int] = {}
        self._counted: Counter[str] = Counter()

    def advance(self, positions: Mapping[str, int]) -> None:
        """Count the records before `positions`. Raises `Rewound` when more were counted already."""
        self._refused.catch_up()
        for topic, reader in self._logs.items():
            position = positions.get(topic, 0)
            if position < self.reached[topic]:
                raise Rewound
            for message in reader.up_to(position):
                self._add(topic, message)
                self.reached[topic] = (message.offset() or 0) + 1
                if self.records % NOTICED == 0:
                    self._notice(sum(self.reached.values()))
            self.reached[topic] = position

    def wrong_fields(self, held: Mapping[str, str]) -> str | None:
        """What is wrong with the partition's own hash, None when nothing is."""
        counts = {name: count for name, count in {**self._counted, **self.recount.counts}.items() if count}
        expected = {f"count:{name}": str(count) for name, count in counts.items()}
        expected |= {
            f"time:{topic}": str(self._times.get(topic, 0)) for topic in self._logs if f"offset:{topic}" in held
        }
        known = {"owner", "epoch", "format", "begun", "ended"}
        known |= {f"count:{name}" for name in (LARGE_NUMBERS, *self.recount.unsure)}
        fields = "offset", "target", "origin", "begin", "fold", "allow"
        # A claim keeps them of all topics, also of those that have fewer partitions.
        known |= {f"{field}:{topic}" for field in fields for topic in self._origins}
        reasons = {name: int(count) for name, count in held.items() if name.startswith(_REASON)}
        # Those that an earlier release has counted have none.
        if sum(reasons.values()) > counts.get("dead_letters", 0):
            return f"more reasons than dead letters: {reasons}"
        known |= reasons.keys()
        # What is expired is held against the recount by the entries of the timelines, what is skipped by the letters.
        others = "expired:", "skip:"
        stored = {name: value for name, value in held.items() if name not in known and not name.startswith(others)}
        return unequal(expected, stored)

    def _add(self, topic: str, message: Message) -> None:
        self.records += 1
        offset, origin = message.offset() or 0, self._origins[topic]
        stage = self._refused.stages.get((origin.id, self._partition, offset))
        time = max(self._times.get(topic, 0), message.timestamp()[1])
        declared = self._recounted.as_declared(message) if stage is None else None
        usable = declared is not None and self.recount.add(declared, time)
        if usable or stage == "fold":
            self._times[topic] = time
        if declared is None or not usable:
            self._counted["dead_letters"] += 1
            self.dead[topic].add(offset, dead_content(message.value()))
            return
        if murmur2(message.key() or b"", origin.partitions) != self._partition:
            self._counted["misplaced_keys"] += 1
        if self._recounted.published:
            self.published[topic].add(offset, self._recounted.published.caused(declared))
