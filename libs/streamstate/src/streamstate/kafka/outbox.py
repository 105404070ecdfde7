"""The records that partitions publish before their commits: derived records and dead letters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from confluent_kafka import KafkaError

from streamstate.app import App, Emit
from streamstate.errors import Misconfigured
from streamstate.kafka.dlq.records import dead_letters, derived, halting, original_headers, shortened, unframed
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.producer import Dated, Outgoing, Outputs, RefusedRecord
from streamstate.keys import Marker
from streamstate.processing.decode import DeadLetter
from streamstate.processing.fitness import require_same_topics
from streamstate.processing.fold_batch import FoldResult
from streamstate.releases.record import Publishing
from streamstate.state.store import Origin


class KafkaOutbox:
    """The `Outbox` of `app`; `origins` are of the input topics."""

    def __init__(
        self,
        app: App,
        history: TopicHistory,
        outputs: Outputs,
        origins: Mapping[str, Origin],
        publishing: Callable[[], Publishing],
    ) -> None:
        """publishing: called for records to send, returns when the release may publish."""
        self._app = app
        self._history = history
        self._outputs = outputs
        self._origins = origins
        self._publishing = publishing

    def require_same_topics(self) -> None:
        require_same_topics([self._origins], self._history.topics.describe(self._origins))

    def publish(self, results: Sequence[FoldResult]) -> int | None:
        written = [each for each in results if each.emits or each.dead]
        if not written:
            return None
        ids = {source.own_name: self._origins[source.topic].id for source in self._app.sources}
        publishing = self._publishing()
        own = [replace(each, emits=[*self._emits(publishing, each)]) for each in written]
        records = [record for each in own for record in derived(self._app, each.emits, each.partition, ids)]
        letters = (letter for each in written for letter in self._letters(publishing, each.partition, each.dead))
        self._send([*records, *letters])
        return publishing.number

    def publish_halting(self, letters: Sequence[tuple[int, DeadLetter]]) -> None:
        by_partition: dict[int, list[DeadLetter]] = {}
        for partition, letter in letters:
            by_partition.setdefault(partition, []).append(letter)
        publishing = self._publishing()
        for partition, dead in by_partition.items():
            self._send(list(halting(self._letters(publishing, partition, sorted(dead, key=attrgetter("offset"))))))

    def _emits(self, publishing: Publishing, result: FoldResult) -> Iterator[Emit]:
        for emit in result.emits:
            if publishing.publishes((self._app.source(emit.cause.topic).topic, result.partition), emit.cause.offset):
                yield emit

    def _letters(self, publishing: Publishing, partition: int, letters: Sequence[DeadLetter]) -> Iterator[Outgoing]:
        by_topic: dict[str, list[DeadLetter]] = {}
        for letter in letters:
            if publishing.publishes((self._app.source(letter.topic).topic, partition), letter.offset):
                by_topic.setdefault(letter.topic, []).append(letter)
        for own_name, dead in by_topic.items():
            source = self._app.source(own_name)
            place = source.topic, partition
            offsets = [letter.offset for letter in dead]
            headers = original_headers(self._history, place, offsets)
            own: Sequence[DeadLetter] = dead
            if source.header_ids:
                own = [unframed(letter, headers.get(letter.offset, [])) for letter in dead]
            yield from dead_letters(self._app, own, place, self._origins[place[0]].id, headers)

    def _send(self, records: Sequence[Outgoing | Dated]) -> None:
        """Raises `Misconfigured` for a record with a timestamp that its topic refuses."""
        if not records:
            return
        try:
            self._outputs.send(records, partial(shortened, self._app))
        except RefusedRecord as error:
            topic, marker = error.record[0], Marker.from_headers(error.record[3])
            if error.args[0].code() != KafkaError.INVALID_TIMESTAMP or marker is None:
                raise
            (cause,) = (topic for topic, origin in self._origins.items() if origin.id == marker.topic_id)
            msg = (
                f"{topic} refuses the timestamp of the record from {cause}:{marker.partition}:{marker.offset}: set "
                f"message.timestamp.before.max.ms and message.timestamp.after.max.ms of {topic} to {2**63 - 1}, or "
                f"run `streamstate skip SERVICE {cause} {marker.partition} {marker.offset} --reason TEXT`"
            )
            raise Misconfigured(msg) from error
