"""The state of an app at an earlier time, and its answers."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from streamstate.app import App
from streamstate.erasure.applying import Erased
from streamstate.replay.engine import Refused, Replay
from streamstate.replay.feed import MergedLogs
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin, TopicPartition
from streamstate.view import Question, View


def behind(app: App, view: View[object]) -> App:
    """`app` with the folds behind the answers of `view`: the fold of its topic, and the tables that a fold looks up."""
    topics = app.topics_of(view)
    own = [fold for fold in app.folds if set(fold.topics) & {*topics}]
    looked_up = [] if all(fold.sources[0].table for fold in own) else app.tables
    return replace(app, folds=tuple(fold for fold in app.folds if fold in own or set(fold.topics) & {*looked_up}))


class Past:
    """The state of partitions of `app`, advanced by the records of `feed`; the arguments are as of `Replay`.

    A table's rows of all partitions are looked up, so the partitions of tables are all folded.
    """

    def __init__(
        self, app: App, origins: Mapping[str, Origin], feed: MergedLogs, refused: Refused, erased: Erased
    ) -> None:
        self._feed = feed
        self._store = MemoryStore()
        self.replay = Replay(app, self._store, origins, refused, erased)
        self.counts = {topic: origins[topic].partitions for topic in app.topics}

    def advance_until(self, time: int) -> None:
        """Fold the records of each log before its first record with a timestamp after `time`, in milliseconds."""
        self.replay.fold(self._feed.until(time))

    def advance_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Fold the records before `offsets`, next offsets by topic and partition."""
        self.replay.fold(self._feed.before(offsets))

    def look_ahead(self, time: int) -> None:
        """As `MergedLogs.look_ahead`: the state does not advance any more."""
        self._feed.look_ahead(time)

    def answer(self, question: Question) -> msgspec.Struct | None:
        """The answer of the view, None for a key that it does not know."""
        return question.answer_from(self._store, self.counts)

    def positions(self, partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """The next offsets of the folded records, 0 before the first."""
        return {
            (topic, partition): snapshot.positions.get(topic, 0)
            for partition, snapshot in self._store.read(dict.fromkeys(partitions, ())).items()
            for topic, count in self.counts.items()
            if partition < count
        }
