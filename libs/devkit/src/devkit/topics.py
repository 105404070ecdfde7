"""The Kafka topics of all services."""

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from devkit import DevkitError, registry
from services.topics.settings import EXAMPLE
from streamstate.settings import ServiceSettings

USUAL = 8
DELETIONS = str(ServiceSettings.model_fields["deletions"].default)
PARTITIONS = {EXAMPLE.topic: 9}
"""A number unlike the other topics', so that tests notice code that assumes a common number."""


def configurations(services: Iterable[str] = registry.SERVICES) -> dict[str, Mapping[str, str]]:
    """The configuration of each topic of `services`, by name: tables and totals are compacted."""
    apps = [registry.app(service) for service in services]
    topics = [topic for app in apps for topic in (*app.topics, *app.emits, app.dead_letters)]
    compacted = [topic for app in apps for topic in (*app.tables, *(totals.topic for totals in app.totals))] + [
        DELETIONS
    ]
    return {topic: {} for topic in topics} | {topic: {"cleanup.policy": "compact"} for topic in compacted}


def cut(bootstrap: str, begins: Mapping[tuple[str, int], int]) -> None:
    """Delete the records before `begins`, offsets by topic and partition, as retention does."""
    places: Sequence[TopicPartition] = [TopicPartition(*place, begin) for place, begin in begins.items()]
    # Without a name, the client would be gone before its answers.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for deleted in admin.delete_records([*places]).values():
        deleted.result()


def create(bootstrap: str, configured: Mapping[str, Mapping[str, str]], partitions: int = USUAL) -> None:
    """Create the missing topics of `configured`, with `partitions` unless the topic has a number of its own.

    Returns when Kafka's metadata has the topics. Raises `DevkitError` when Kafka refuses or does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = [
        NewTopic(topic, PARTITIONS.get(topic, partitions), 1, config=dict(configuration))
        for topic, configuration in configured.items()
    ]
    for topic, created in admin.create_topics(new, operation_timeout=30.0).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                reason = error.args[0].str()
                msg = f"the topic {topic} was not created ({reason}); check that Kafka runs at {bootstrap}"
                raise DevkitError(msg) from error
