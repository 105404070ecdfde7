"""What is done to topics in the cluster. Runs in an image of this project.

python topics.py create CONFIGURATIONS: JSON, by topic
python topics.py cut TOPIC: delete all records, as retention does
"""

import json
import sys

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamstate.deployment.connections import KafkaSettings
from streamstate.kafka.admin import AdminConnection, Topics
from streamstate.settings import load

PARTITIONS = 8


def create(admin: AdminClient, configurations: dict[str, dict[str, str]]) -> None:
    new = [NewTopic(topic, PARTITIONS, 1, config=configuration) for topic, configuration in configurations.items()]
    for created in admin.create_topics(new).values():
        created.result()


def cut(admin: AdminClient, topics: Topics, topic: str) -> None:
    ends = [TopicPartition(topic, place, OFFSET_END) for place in range(topics.partitions(topic))]
    for deleted in admin.delete_records(ends).values():
        deleted.result()


if __name__ == "__main__":
    verb, given = sys.argv[1:]
    settings = load(KafkaSettings)
    admin = AdminConnection(settings.kafka, settings.security).admin()
    if verb == "create":
        create(admin, json.loads(given))
    else:
        cut(admin, Topics(settings.kafka, security=settings.security), given)
