"""The check of one service: partition by partition, while its stream goes on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice

import structlog
from confluent_kafka import Message

from streamstate import bootstrap
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.releases.pointer import Pointer
from streamstate.settings import ServiceSettings
from streamstate.state.redis_connections import connect
from streamstate.state.store import Origin
from streamstate.verify.counting import Counting, Rewound
from streamstate.verify.derived_topics import DerivedTopicCheck, by_marker, dead_letters
from streamstate.verify.recount import Difference, Recounted
from streamstate.verify.redis_state import RedisState
from streamstate.verify.refused_records import RefusedRecords

log = structlog.get_logger()

CHUNK = 200
"""Keys read in one script: Redis serves no other client meanwhile."""

ATTEMPTS = 5
TIMEOUT_S = 30.0


@dataclass
class Report:
    """The result of a service's check: compared keys and differences. `faults` are faults of the state as a whole."""

    service: str
    partitions: int = 0
    records: int = 0
    keys: int = 0
    differences: list[Difference] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the state equals the recount."""
        return not (self.faults or self.differences)

    def __str__(self) -> str:
        if not self.partitions:
            return f"{self.service}: {'; '.join(self.faults) or 'nothing is stored'}"
        outcome = f"{len(self.differences)} differences" if self.differences else "no difference"
        return f"{self.service}: {self.partitions} partitions, {self.records:,} records, {self.keys:,} keys: {outcome}"


class Check:
    """Compares every key of one service with its recount; needs memory for one partition at a time.

    A service without any state may not be deployed: its topics are not checked.

    progress: called with the number of counted offsets, and the total.
    """

    def __init__(
        self,
        recounted: Recounted,
        settings: ServiceSettings,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> None:
        self._recounted = recounted
        self._settings = settings
        self._topics = bootstrap.topics(settings.kafka, settings.security)
        self._history = bootstrap.history(settings, self._topics)
        self._deletions = bootstrap.deletions(settings, self._topics)
        client = connect(settings.redis, TIMEOUT_S, settings.redis_login)
        self._state = RedisState(client, recounted.service)
        self._publishing = Pointer(client, settings.release_of or recounted.service).publishing(recounted.service)
        self._progress = progress
        self._done = 0
        self._all = 0
        self._derived = [dead_letters(recounted.dead_letters)]
        if published := recounted.published:
            self._derived.append(DerivedTopicCheck(published.topic, by_marker, recounted.content))

    def run(self) -> Report:
        """The whole check. Raises `StreamStateError`, or the clients' own errors, when a server cannot be read."""
        if next(self._state.strays(0), None) is None:
            return Report(self._recounted.service)
        origins = {topic: self._topics.origin(topic) for topic in self._recounted.topics}
        report = Report(self._recounted.service, max(origin.partitions for origin in origins.values()))
        places = [(topic, p) for topic, origin in origins.items() for p in range(origin.partitions)]
        self._all = sum(self._topics.ends(places).values())
        with RefusedRecords(self._recounted.service, self._derived[0].topic, self._history) as refused:
            for partition in range(report.partitions):
                self._insist(partition, origins, refused, report)
            refused.catch_up()
        strays = self._state.strays(report.partitions)
        report.differences += (Difference(key, "belongs to no partition") for key in strays)
        for derived in self._derived:
            report.differences += derived.differences(self._records(derived.topic), refused.replaced[derived.topic])
        return report

    def _records(self, topic: str) -> Iterator[Message]:
        """The records of `topic`; none for a missing topic, since none is needed before the first dead letter."""
        with suppress(Misconfigured):
            yield from self._history.whole(topic, emptied=True)

    def _insist(self, partition: int, origins: Mapping[str, Origin], refused: RefusedRecords, report: Report) -> None:
        for _ in range(ATTEMPTS):
            try:
                return self._partition(partition, origins, refused, report)
            except Rewound:
                log.info("the state changed meanwhile; looking again", partition=partition)
        msg = f"the state of {self._state.tag(partition)} goes back again and again; look why its server restarts"
        raise StreamStateError(msg)

    def _partition(
        self, partition: int, origins: Mapping[str, Origin], refused: RefusedRecords, report: Report
    ) -> None:
        published = self._recounted.published
        with ExitStack() as opened:
            logs = {
                topic: opened.enter_context(
                    self._history.log((topic, partition), emptied=published is not None and topic == published.topic)
                )
                for topic, origin in origins.items()
                if partition < origin.partitions
            }
            counting = Counting(self._recounted, partition, origins, logs, refused, self._notice, self._deletions)
            seen, differences = self._compare_all(partition, counting)
        self._done += sum(counting.reached.values())
        self._notice(0)
        for topic, reached in counting.reached.items():
            for derived, effects in zip(self._derived, (counting.dead, counting.published), strict=False):
                effects[topic].reach(reached)
                if self._publishing.record:
                    effects[topic].keep(self._publishing.since((topic, partition)))
                derived.expected[origins[topic].id, partition] = effects[topic]
        report.records += counting.records
        report.keys += len(seen)
        report.differences += differences

    def _notice(self, further: int) -> None:
        """Report `further` offsets of the present partition, in addition to the earlier partitions'."""
        self._progress(self._done + further, self._all)

    def _compare_all(self, partition: int, counting: Counting) -> tuple[set[str], list[Difference]]:
        """The compared keys, first stored keys, then missing keys, and their differences."""
        seen: set[str] = set()
        differences: list[Difference] = []
        for keys in chunks(self._state.keys(partition)):
            differences += self._compare(partition, keys, counting)
            seen.update(keys)
        missing = [key for key in counting.recount.expected_keys() if key not in seen]
        for keys in chunks(missing):
            differences += self._compare(partition, keys, counting)
            seen.update(keys)
        look = self._state.read(partition, [])
        counting.advance(look.positions)
        if reason := counting.wrong_fields(look.held):
            differences.append(Difference(self._state.tag(partition), reason))
        return seen, differences

    def _compare(self, partition: int, keys: Sequence[str], counting: Counting) -> Iterator[Difference]:
        look = self._state.read(partition, keys)
        counting.advance(look.positions)
        for key, value in zip(keys, look.values, strict=True):
            if reason := counting.wrong(key, value):
                yield Difference(f"{self._state.tag(partition)}:{key}", reason)


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    """`keys` in lists of at most `CHUNK`."""
    remaining = iter(keys)
    return iter(lambda: list(islice(remaining, CHUNK)), [])
