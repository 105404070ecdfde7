"""Questions that Kafka answers after the election of a leader or of a coordinator."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

T = TypeVar("T")
_PAUSE_S = 0.2
_SILENT = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR,
}
_RETRIED = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._NOENT,  # the client's name for a partition without a known leader
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
"""Errors about leaders and coordinators that Kafka's protocol declares retriable."""


def is_silent(error: KafkaException) -> bool:
    """Whether no broker answered, or none that has the partition; the client's own errors have negative codes."""
    code = error.args[0].code()
    return code < 0 or code in _SILENT


def elected(ask: Callable[[], T], timeout_s: float, renew: Callable[[], None] | None = None) -> T:
    """The answer of `ask`, repeated for `timeout_s` seconds while Kafka elects the process to ask.

    renew: reads the leaders again before a repetition; a client keeps former leaders for up to 15 minutes.
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _RETRIED or time.monotonic() > end:
                raise
        time.sleep(_PAUSE_S)
        if renew:
            renew()


def of_group(ask: Callable[[], Future[T]], timeout_s: float) -> T | None:
    """The answer of `ask` about a consumer group, repeated as by `elected`; None for a group that does not exist."""
    try:
        return elected(lambda: ask().result(), timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return None
        raise


def answered(listed: dict[tuple[str, int], ListOffsetsResultInfo]) -> dict[tuple[str, int], ListOffsetsResultInfo]:
    """`listed`, complete: the client gives partitions with silent leaders an invalid offset instead of an error.

    Raises `KafkaException` with the names of such partitions.
    """
    silent = [f"{topic}:{p}" for (topic, p), found in listed.items() if found.offset == OFFSET_INVALID]
    if silent:
        reason = f"the leaders of {', '.join(silent)} do not answer; start their brokers"
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, reason))
    return listed
