"""A state built from other topics or folds: the stream refuses to continue, with the reason."""

from confluent_kafka.admin import NewTopic

from streamstate.state.redis_connections import connect
from tests.deployment import Deployment
from tests.waiting import until


def test_a_topic_that_is_to_be_written_and_is_missing_is_named_before_a_record_needs_it(deployment: Deployment) -> None:
    """Else one bad record would block the stream for ever."""
    dead_letters = f"{deployment.name}-dlq"
    deployment.admin.delete_topics([dead_letters])[dead_letters].result()
    deployment.send(100)
    stream = deployment.stream()
    advice = f"the topic {dead_letters} cannot be read"
    stream.refused(advice)
    until(lambda: any(advice in fault for fault in deployment.command("status")["faults"]), 30, "status to name it")
    deployment.admin.create_topics([NewTopic(dead_letters, 1, 1)])[dead_letters].result()
    deployment.folded(100)


def test_instances_that_keep_the_state_in_two_places_are_refused(deployment: Deployment) -> None:
    """Each would answer from a part, and call itself ready."""
    stream = deployment.build()
    elsewhere = f"redis://127.0.0.1:{deployment.cluster.redis.port}/9"
    with connect(elsewhere, 5.0) as client:
        try:
            other = deployment.stream(INSTANCE="stream-1", REDIS=elsewhere)
            other.refused("stream-0 of the same consumer group does not write to this Redis", "STREAMSTATE_REDIS")
            stream.refused("stream-1 of the same consumer group does not write to this Redis")
            assert "stream-1 of the same" in str(deployment.command("status")["faults"])
        finally:
            client.flushdb()
