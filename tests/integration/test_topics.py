"""The offsets of topics whose partitions have new leaders, or none."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import CACHE
from devkit.servers.child_process import free_port
from devkit.servers.kafka import Kafka
from streamstate.kafka import admin as kafka_admin
from streamstate.kafka.admin import Topics

TOPIC, PARTITIONS = "elected-at-once", 200


def test_the_offsets_of_a_topic_are_read_while_its_leaders_are_elected(servers: LocalCluster) -> None:
    kafka = servers.kafka
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    try:
        places = [(TOPIC, partition) for partition in range(PARTITIONS)]
        assert Topics(kafka.bootstrap).ends(places) == dict.fromkeys(places, 0)
    finally:
        admin.delete_topics([TOPIC])[TOPIC].result()


def test_the_offsets_of_a_broker_that_was_away_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Kafka(tmp_path / "first", free_port(), CACHE / "kafka")
    with first:
        lines = (tmp_path / "first" / "server.properties").read_text().splitlines()
        joined = [line for line in lines if line.startswith("controller.quorum.voters=")]
        own = ["process.roles=broker", "node.id=2", "listeners=PLAINTEXT://{host}:{port}", *joined]
        second = Kafka(tmp_path / "second", free_port(), CACHE / "kafka", "\n".join(own))
        with second:
            admin, topics = AdminClient({"bootstrap.servers": first.bootstrap}), Topics(first.bootstrap)
            of_both = NewTopic(TOPIC, 2, replica_assignment=[[1], [2]])
            admin.create_topics([of_both])[TOPIC].result()
            places = [(TOPIC, 0), (TOPIC, 1)]
            assert topics.ends(places) == dict.fromkeys(places, 0)
            second.kill()
            monkeypatch.setattr(kafka_admin, "TIMEOUT_S", 1.0)
            with pytest.raises(KafkaException, match=f"the leaders of {TOPIC}:1 do not answer"):
                topics.ends(places)
            second.start()
            monkeypatch.undo()
            assert topics.ends(places) == dict.fromkeys(places, 0)
