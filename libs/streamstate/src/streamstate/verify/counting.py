"""The recount of one partition, and of the library's own fields: times, counts, emitted records."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Message

from streamstate.erasure.deletions import erased
from streamstate.erasure.topic import DeletionTopic
from streamstate.kafka.history import TopicLog
from streamstate.keys import Marker
from streamstate.processing.decode import MISPLACED
from streamstate.state.store import DELETIONS, Origin, TopicPartition
from streamstate.verify.derived_topics import Effects, dead_content
from streamstate.verify.recount import Recounted, Stored, unequal
from streamstate.verify.refused_records import RefusedRecords
from streamstate.view import SEEN


class Rewound(Exception):
    """The state went back: it was emptied, its server lost data, or users were deleted."""


_REASON = "count:dead_letters: "
"""The prefix of the fields that count dead letters by reason."""

NOTICED = 1_000
"""Records from one call of `notice` to the next."""


class Counting:
    """The recount of one partition, advanced to the state's positions.

    notice: called now and then with the sum of the reached offsets.
    deletions: the deletions of users, whose earlier records do not count.
    """

    def __init__(
        self,
        recounted: Recounted,
        partition: int,
        origins: Mapping[str, Origin],
        logs: Mapping[str, TopicLog],
        refused: RefusedRecords,
        notice: Callable[[int], None],
        deletions: DeletionTopic | None = None,
    ) -> None:
        self.recount = recounted.make()
        self._erased_recount = recounted.make()
        self._deletions = deletions
        self._applied: int | None = None
        self._erased: Mapping[TopicPartition, Mapping[bytes, int]] = {}
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
        """Count the records before `positions`. Raises `Rewound` when later records were counted already."""
        self._refused.catch_up()
        self._leave_out(positions.get(DELETIONS, 0))
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

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        """As `Recount.wrong`. The times of users depend on a setting that is unknown here, and are not compared."""
        return None if key.partition(":")[0] == SEEN else self.recount.wrong(key, stored)

    def wrong_fields(self, held: Mapping[str, str]) -> str | None:
        """The difference of the partition's own hash, None for an equal hash."""
        # A state counted the records of a user until the user's deletion.
        unsure = {*self.recount.unsure, *self._erased_recount.counts}
        counted = {**self._counted, **self.recount.counts}
        counts = {name: count for name, count in counted.items() if count and name not in unsure}
        expected = {f"count:{name}": str(count) for name, count in counts.items()}
        expected |= {
            f"time:{topic}": str(self._times.get(topic, 0)) for topic in self._logs if f"offset:{topic}" in held
        }
        known = {"owner", "epoch", "format", "begun", "ended", "backup", f"offset:{DELETIONS}", f"time:{DELETIONS}"}
        # A record was misplaced by the partitioner that was declared then.
        known |= {f"count:{name}" for name in (*unsure, MISPLACED)}
        fields = "offset", "target", "origin", "begin", "fold", "allow", "placed"
        # A claim stores the fields of all topics, also of topics with fewer partitions.
        known |= {f"{field}:{topic}" for field in fields for topic in self._origins}
        reasons = {name: int(count) for name, count in held.items() if name.startswith(_REASON)}
        # Dead letters counted by an earlier release have no reason.
        if sum(reasons.values()) > counts.get("dead_letters", 0):
            return f"more reasons than dead letters: {reasons}"
        known |= reasons.keys()
        # Expiry times are compared by the entries of the timelines, skips by the letters.
        uncompared = "expired:", "skip:"
        stored = {name: value for name, value in held.items() if name not in known and not name.startswith(uncompared)}
        return unequal(expected, stored)

    def _leave_out(self, applied: int) -> None:
        """Leave out the records of users deleted before the offset `applied` of the topic of deletions."""
        if self._applied not in (None, applied):
            raise Rewound
        if self._applied is None and self._deletions and applied:
            self._deletions.catch_up()
            ids = {topic: origin.id for topic, origin in self._origins.items()}
            asked = self._deletions.deletions.asked(self._recounted.service, self._partition, ids, applied)
            self._erased = erased(asked, self._partition, self._recounted.rekeyed)
        self._applied = applied

    def _add(self, topic: str, message: Message) -> None:
        self.records += 1
        offset, origin = message.offset() or 0, self._origins[topic]
        stage = self._refused.stages.get((origin.id, self._partition, offset))
        time = max(self._times.get(topic, 0), message.timestamp()[1])
        declared = self._recounted.as_declared(message) if stage is None else None
        left_out = topic not in self._recounted.rekeyed and self._is_erased(topic, message)
        recount = self._erased_recount if left_out else self.recount
        usable = declared is not None and recount.add(declared, time)
        if usable:
            self._times[topic] = time
        if declared is None or not usable:
            self._counted["dead_letters"] += 1
            self.dead[topic].add(offset, dead_content(message.value()))
            return
        if left_out:
            self.recount.add_erased(declared, time)
            self.published[topic].leave_open(offset)
        elif self._recounted.published:
            content = self._recounted.published.caused(declared)
            # A stream sends the record of an erased user again unless it knows the deletion.
            sent: Any = content if topic in self._recounted.rekeyed else None
            if sent and offset < self._erased.get((topic, self._partition), {}).get(sent[0], 0):
                self.published[topic].leave_open(offset)
            else:
                self.published[topic].add(offset, content)

    def _is_erased(self, topic: str, message: Message) -> bool:
        """Whether the record, or the record whose user it has, is of an erased user."""
        places = [(topic, self._partition, message.offset() or 0)]
        if marker := Marker.from_headers(message.headers()):
            places.append(marker[:3])
        key = message.key() or b""
        return any(offset < self._erased.get((name, number), {}).get(key, 0) for name, number, offset in places)
