"""Questions to Kafka while it elects a leader or a coordinator."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamstate.kafka.elections import elected

# By the table of errors of Kafka's protocol, where they are retriable.
OF_ELECTIONS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)


def refused(codes: Iterator[int]) -> str:
    for code in codes:
        raise KafkaException(KafkaError(code))
    return "answered"


@pytest.mark.parametrize("code", OF_ELECTIONS)
def test_a_question_is_asked_again_during_an_election(code: int) -> None:
    codes = iter([code])
    assert elected(lambda: refused(codes), 10) == "answered"


def test_another_refusal_is_raised_at_once() -> None:
    codes = iter([KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(KafkaException):
        elected(lambda: refused(codes), 10)


def test_a_long_election_is_an_error() -> None:
    codes = iter([KafkaError.LEADER_NOT_AVAILABLE] * 100)
    with pytest.raises(KafkaException):
        elected(lambda: refused(codes), 0.1)
