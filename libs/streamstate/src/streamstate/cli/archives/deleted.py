"""The deletions of users, as they concern archived records."""

from collections.abc import Mapping

from streamstate import bootstrap
from streamstate.erasure.deletions import erased
from streamstate.settings import CommandSettings
from streamstate.state.store import TopicPartition


class Deleted:
    """All deletions at the time of the call."""

    def __init__(self, settings: CommandSettings) -> None:
        """Raises as `DeletionTopic.catch_up` does."""
        topic = bootstrap.deletions(settings, bootstrap.topics(settings.kafka, settings.security))
        if topic:
            topic.catch_up()
        self._deletions = topic.deletions if topic else None

    def of(self, place: TopicPartition, topic_id: str | None) -> Mapping[bytes, int]:
        """The keys of deleted users in a partition of the topic with the id `topic_id`, and the offset before which
        their records are deleted.
        """
        if self._deletions is None or topic_id is None:
            return {}
        topic, partition = place
        # No service has an empty name: the deletions of all services count.
        asked = self._deletions.asked("", partition, {topic: topic_id})
        return erased(asked, partition, {}).get(place, {})
