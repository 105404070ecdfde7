"""The deletions of users, as they concern archived records."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Self

from streamstate import bootstrap
from streamstate.erasure.applying import Erased
from streamstate.erasure.deletions import Asked, Deletions, erased
from streamstate.settings import CommandSettings
from streamstate.state.store import TopicPartition


class Deleted:
    """Deletions, None where users are not deleted."""

    def __init__(self, deletions: Deletions | None) -> None:
        self._deletions = deletions

    @classmethod
    def present(cls, settings: CommandSettings) -> Self:
        """All deletions at the time of the call. Raises as `DeletionTopic.catch_up` does."""
        topic = bootstrap.deletions(settings, bootstrap.topics(settings.kafka, settings.security))
        if topic:
            topic.catch_up()
        return cls(topic.deletions if topic else None)

    def of(self, place: TopicPartition, topic_id: str | None) -> Mapping[bytes, int]:
        """The keys of deleted users in a partition of the topic with the id `topic_id`, and the offset before which
        their records are deleted.
        """
        return erased(self._asked(place, topic_id), place[1], {}).get(place, {})

    def sent(self, place: TopicPartition, topic_id: str | None) -> Erased:
        """The deleted records that a stream sent again into a partition, perhaps after the deletion, by marker."""
        found: defaultdict[TopicPartition, dict[bytes, int]] = defaultdict(dict)
        for each in self._asked(place, topic_id):
            key = each.bounds[place[0]].key
            for given in self._deletions.inputs(each.user) if self._deletions else ():
                for number, end in enumerate(given.ends):
                    before = found[given.topic_id, number]
                    before[key] = max(end, before.get(key, 0))
        return found

    def _asked(self, place: TopicPartition, topic_id: str | None) -> list[Asked]:
        if self._deletions is None or topic_id is None:
            return []
        # No service has an empty name: the deletions of all services count.
        asked = self._deletions.asked("", place[1], {place[0]: topic_id})
        return [each for each in asked if place[0] in each.bounds]
