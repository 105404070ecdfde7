"""The Kafka topics of the listening services."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from devkit import DevkitError

EVENTS = "listening-events"
ARTISTS, ALBUMS, TRACKS = NAMES = ("artists", "albums", "tracks")
ENRICHED = "listening-events-enriched"
DEAD_LETTERS = ("metrics-dlq", "names-dlq", "recommendations-dlq")

CONFIGS: dict[str, dict[str, str]] = {
    EVENTS: {},
    **{topic: {"cleanup.policy": "compact"} for topic in NAMES},
    ENRICHED: {},
    **{topic: {} for topic in DEAD_LETTERS},
}


def create(bootstrap: str, partitions: int = 8) -> None:
    """Create the topics that are missing, with `partitions` partitions each; the others stay as they are.

    Returns when Kafka's metadata shows them. Raises `DevkitError` when Kafka refuses or does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = [NewTopic(topic, partitions, 1, config=config) for topic, config in CONFIGS.items()]
    for topic, created in admin.create_topics(new, operation_timeout=30.0).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                reason = error.args[0].str()
                msg = f"the topic {topic} was not created ({reason}); check that Kafka runs at {bootstrap}"
                raise DevkitError(msg) from error
