"""The records behind a view: the logs of its topics, without the records that the stream left out."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from confluent_kafka import Message

from streamstate import bootstrap
from streamstate.app import App
from streamstate.erasure.applying import Erased
from streamstate.erasure.deletions import erased
from streamstate.history.answers.past import Past, behind
from streamstate.history.answers.times import Span
from streamstate.kafka.dlq.topic import Refusals
from streamstate.replay.feed import Late, MergedLogs, dated
from streamstate.settings import ServiceSettings
from streamstate.state.store import Claim, TopicPartition
from streamstate.view import View

NOTICED = 1_000
"""Records from one call of `notice` to the next."""


class Logs:
    """The logs of the topics behind `view`, in Kafka and in the archive of `settings`.

    app: with the folds behind the view. view_topics: the topics of the view's own fold. notice: called with the number
        of read records. Raises `Misconfigured` for a topic that does not exist.
    """

    def __init__(self, app: App, view: View[object], settings: ServiceSettings) -> None:
        self.app = behind(app, view)
        self._deployed = app
        self.view_topics = app.topics_of(view)
        self.notice: Callable[[int], None] = lambda _records: None
        self._settings = settings
        self._topics = bootstrap.topics(settings.kafka, settings.security)
        self._history = bootstrap.history(settings, self._topics)
        self.origins = self._topics.describe(self.app.topics)
        self.counts = {topic: origin.partitions for topic, origin in self.origins.items()}

    def ends(self, partitions: Collection[int]) -> dict[TopicPartition, int]:
        return self._topics.ends(self._places(partitions))

    def warnings(self, partitions: Collection[int]) -> Iterator[str]:
        """Why answers from the logs of `partitions` may lack records that the stream once read."""
        for topic in self._topics.compacted(self.app.topics):
            yield f"Kafka compacts {topic}: of each key, records before the last may be missing"
        for (topic, partition), begin in self._begins(self._places(partitions)).items():
            if begin:
                yield f"{topic}:{partition} begins at the offset {begin}: answers lack the records before"

    def span(self) -> Span | None:
        """The times of the view's records, in all partitions; None without records."""
        places = [(topic, partition) for topic in self.view_topics for partition in range(self.counts[topic])]
        times = self._history.timestamps(places)
        return Span(min(times), max(*times, round(time.time() * 1_000))) if times else None

    @contextmanager
    def past(self, partitions: Collection[int], late: Late | None = None) -> Iterator[Past]:
        """A state of `partitions` without records, to be advanced in the body. Tables have all their partitions.

        late: called for each record behind a later timestamp.
        """
        claims = {partition: Claim(partition, 0, "", {}) for partition in range(max(self.counts.values()))}
        refusals = Refusals(self._history, self.app.dead_letters)
        refused = refusals.read(self.origins, claims)
        places = self._places(partitions)
        begins = self._begins(places)
        with ExitStack() as opened:
            logs = []
            for place, end in self.ends(partitions).items():
                rank = self.app.topics.index(place[0])
                source = self.app.sources[rank]
                log = opened.enter_context(self._history.log(place, begins.get(place, 0), emptied=source.marked))
                messages = self._counted(log.up_to(end))
                logs.append(dated(messages, source, rank, place[1], refused.get(place, {}), late))
            yield Past(self.app, self.origins, MergedLogs(logs), refused, self._erased(claims))

    def _places(self, partitions: Collection[int]) -> list[TopicPartition]:
        return [
            (topic, partition)
            for topic, count in self.counts.items()
            for partition in (range(count) if topic in self.app.tables else sorted(partitions))
            if partition < count
        ]

    def _begins(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of logs that may lack their first records."""
        complete = self.app.requiring_beginning - {*self._settings.truncated_topics}
        return self._history.begins([place for place in places if place[0] not in complete])

    def _counted(self, messages: Iterable[Message]) -> Iterator[Message]:
        for number, message in enumerate(messages, 1):
            if number % NOTICED == 0:
                self.notice(NOTICED)
            yield message

    def _erased(self, partitions: Iterable[int]) -> Erased:
        """The records of users deleted by now, whether or not a state has applied the deletion."""
        left_out: dict[TopicPartition, dict[bytes, int]] = {}
        topic = bootstrap.deletions(self._settings, self._topics)
        if topic and self.app.user_folds:
            deletions = topic.present()
            # The deletions may name topics that a fold outside the view sends again.
            ids = {name: origin.id for name, origin in self._topics.describe(self._deployed.topics).items()}
            for partition in partitions:
                asked = deletions.asked(self.app.name, partition, ids)
                left_out |= erased(asked, partition, self._deployed.rekeyed)
        return left_out
