"""The Kafka topics of all services."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from devkit import DevkitError
from devkit.registry import topics

TOPICS = topics()
CONFIGS = {name: {"cleanup.policy": "compact"} if topic.compacted else {} for name, topic in TOPICS.items()}


def create(bootstrap: str, partitions: int = 8) -> None:
    """Create the topics that are missing, with `partitions` unless they have a number of their own; others stay.

    Returns when Kafka's metadata shows them. Raises `DevkitError` when Kafka refuses or does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = [NewTopic(name, topic.partitions or partitions, 1, config=CONFIGS[name]) for name, topic in TOPICS.items()]
    for topic, created in admin.create_topics(new, operation_timeout=30.0).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                reason = error.args[0].str()
                msg = f"the topic {topic} was not created ({reason}); check that Kafka runs at {bootstrap}"
                raise DevkitError(msg) from error
