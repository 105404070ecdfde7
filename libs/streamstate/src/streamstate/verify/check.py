"""The check of one service: partition by partition, while its stream goes on."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Message

from streamstate import bootstrap
from streamstate.app import App
from streamstate.erasure.applying import Erased
from streamstate.erasure.deletions import erased
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.kafka.dlq.topic import Refusals, is_derived
from streamstate.keys import Marker
from streamstate.processing.decode import topics_with_header_ids
from streamstate.releases.pointer import Pointer
from streamstate.settings import ServiceSettings
from streamstate.state.redis_connections import connect
from streamstate.verify.difference import Difference
from streamstate.verify.keys import KeyCheck
from streamstate.verify.outputs import Caused, Output, OutputCheck, Place, derived, is_letter, letter
from streamstate.verify.partition import Inputs, PartitionReplay, Rewound
from streamstate.verify.redis_state import RedisState

log = structlog.get_logger()

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
        """Whether the state equals the replay."""
        return not (self.faults or self.differences)

    def __str__(self) -> str:
        if not self.partitions:
            return f"{self.service}: {'; '.join(self.faults) or 'nothing is stored'}"
        outcome = f"{len(self.differences)} differences" if self.differences else "no difference"
        return f"{self.service}: {self.partitions} partitions, {self.records:,} records, {self.keys:,} keys: {outcome}"


class Check:
    """Compares every key of one deployment with a replay of its topics, and its outputs with their causes.

    Needs memory for the state of one partition, and 24 bytes for each output of the topics. A service without any state
    may not be deployed: its topics are not checked.

    progress: called with the number of counted offsets, and the total.
    """

    def __init__(
        self, app: App, settings: ServiceSettings, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> None:
        self._app = app
        self._topics = bootstrap.topics(settings.kafka, settings.security)
        self._history = bootstrap.history(settings, self._topics)
        self._deletions = bootstrap.deletions(settings, self._topics)
        client = connect(settings.redis, TIMEOUT_S, settings.redis_login)
        self._state = RedisState(client, app.name)
        self._store = bootstrap.store_over(client, app.name)
        self._publishing = Pointer(client, app.release_of).publishing(app.name)
        self._progress = progress
        self._done = 0
        self._caused: dict[Place, Caused] = {}
        self._dead: dict[Place, Caused] = {}

    def run(self) -> Report:
        """The whole check. Raises `StreamStateError`, or the clients' own errors, when a server cannot be read."""
        if next(self._state.strays(0), None) is None:
            return Report(self._app.name)
        origins = {topic: self._topics.origin(topic) for topic in self._app.topics}
        report = Report(self._app.name, max(origin.partitions for origin in origins.values()))
        places = [(topic, p) for topic, origin in origins.items() for p in range(origin.partitions)]
        total = sum(self._topics.ends(places).values())
        refusals = Refusals(self._history, self._app.dead_letters, self._app.name)
        inputs = Inputs(self._app, origins, self._history, refusals, self._horizons())
        for partition in range(report.partitions):
            self._insist(partition, inputs, report, lambda records: self._progress(self._done + records, total))
        strays = self._state.strays(report.partitions)
        report.differences += (Difference(key, "belongs to no partition") for key in strays)
        report.differences += self._wrong_outputs({origin.id: topic for topic, origin in origins.items()})
        return report

    def _insist(self, partition: int, inputs: Inputs, report: Report, notice: Callable[[int], None]) -> None:
        for _ in range(ATTEMPTS):
            try:
                return self._partition(partition, inputs, report, notice)
            except Rewound:
                log.info("the state changed meanwhile; looking again", partition=partition)
        msg = f"the state of {self._state.tag(partition)} goes back again and again; look why its server restarts"
        raise StreamStateError(msg)

    def _partition(self, partition: int, inputs: Inputs, report: Report, notice: Callable[[int], None]) -> None:
        deletions = self._store.inspect(partition, []).deletions
        left_out = self._erased(partition, inputs, deletions or 0)
        with PartitionReplay(inputs, partition, left_out, deletions, notice) as replay:
            checked = KeyCheck(self._store, self._state, partition, replay)
            differences = checked.run()
        self._done += replay.records
        first, *others = (each.outputs for each in replay.replays)
        for topic, reached in replay.reached.items():
            place = inputs.origins[topic].id, partition
            caused = first.caused[place]
            caused.reached = first.dead[place].reached = reached
            for other in others:
                caused = caused.common(other.caused[place])
            self._caused[place], self._dead[place] = caused, first.dead[place]
        report.records += replay.records
        report.keys += checked.keys
        report.differences += [*differences, *first.dropped.values()]

    def _erased(self, partition: int, inputs: Inputs, applied: int) -> Erased:
        """The records of users deleted before the offset `applied` of the topic of deletions."""
        if not (self._deletions and applied):
            return {}
        self._deletions.catch_up()
        ids = {topic: origin.id for topic, origin in inputs.origins.items()}
        asked = self._deletions.deletions.asked(self._app.name, partition, ids, applied)
        return erased(asked, partition, self._app.rekeyed)

    def _horizons(self) -> dict[str, float]:
        """By written topic, the time (milliseconds) before which Kafka may have deleted its records."""
        topics = [*map(self._app.output, self._app.emits), self._app.dead_letters]
        compacted = {*self._topics.compacted(topics)}
        limits = {topic: limit for topic, limit in self._topics.retention_ms(topics).items() if self._is_cut(topic)}
        now = time.time() * 1_000
        return {topic: math.inf if topic in compacted else now - limits.get(topic, math.inf) for topic in topics}

    def _is_cut(self, topic: str) -> bool:
        """Whether first records of `topic` are deleted, and not in the archive."""
        places = [(topic, partition) for partition in range(self._topics.partitions(topic))]
        return any(self._history.begins(places).values())

    def _wrong_outputs(self, topics: Mapping[str, str]) -> Iterator[Difference]:
        """The differences of dead letters and derived records; `topics` are the names by id."""

        def publishes(place: Place, offset: int) -> bool:
            since = self._publishing.since((topics[place[0]], place[1]))
            return since is not None and offset >= since

        header_ids = [id_ for id_, topic in topics.items() if topic in topics_with_header_ids(self._app)]
        dead, caused = OutputCheck(self._dead, publishes), OutputCheck(self._caused, publishes)
        for message in self._records(self._app.dead_letters):
            if is_derived(message) and (marker := Marker.from_headers(message.headers())):
                caused.replaced(marker)
            elif is_letter(message):
                yield from _wrong(dead, message, letter(message, header_ids))
        for name, of in self._app.emits.items():
            for message in self._records(self._app.output(name)):
                yield from _wrong(caused, message, derived(message, dated=of.dated))
        yield from dead.missing()
        yield from caused.missing()

    def _records(self, topic: str) -> Iterator[Message]:
        """The records of `topic`; none for a missing topic, since none is needed before the first record."""
        with suppress(Misconfigured):
            places = [(topic, partition) for partition in range(self._topics.partitions(topic))]
            begins = self._history.begins(places)
            for place, end in self._topics.ends(places).items():
                with self._history.log(place, begins[place], emptied=True) as opened:
                    yield from opened.up_to(end)


def _wrong(check: OutputCheck, message: Message, output: Output | None) -> Iterator[Difference]:
    if reason := check.wrong(str(message.topic()), output):
        yield Difference(f"{message.topic()}:{message.partition()}:{message.offset()}", reason)
