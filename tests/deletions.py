"""The topic of deletions without Kafka."""

from collections.abc import Iterable

from streamstate.erasure.deletions import DeletionRecord
from streamstate.erasure.topic import DeletionTopic
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics


class InMemory(DeletionTopic):
    """Holds what is written; `missing`: there is no such topic."""

    def __init__(self, topics: Topics) -> None:
        super().__init__("user-deletions", topics)
        self.missing = False
        self._new: list[DeletionRecord] = []

    def catch_up(self) -> list[DeletionRecord]:
        if self.missing:
            msg = "there is no topic user-deletions"
            raise Misconfigured(msg)
        new, self._new = self._new, []
        return new

    def write(self, deletions: Iterable[DeletionRecord]) -> None:
        for deletion in deletions:
            self.deletions.add(self.end, deletion)
            self._next = self.end + 1
            self._new.append(deletion)
