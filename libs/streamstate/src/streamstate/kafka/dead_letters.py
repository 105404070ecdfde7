"""The records that a service writes about records: derived ones and dead letters."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from confluent_kafka import (
    Consumer,
    KafkaException,
    TopicPartition,
)

from streamstate.app import App, Emit
from streamstate.kafka.admin import QUIET, TIMEOUT_S
from streamstate.kafka.producer import Headers, Outgoing
from streamstate.kafka.security import OPEN, Security
from streamstate.processing.decode import DeadLetter

SOURCE_HEADER = "streamstate.source"
SHA256_HEADER = "x-value-sha256"
SHORT = 1_024
"""Bytes of a value that is too large, and of a header beside it, that are kept."""

_OWN = ("__streams.errors.", "x-", SOURCE_HEADER)


def derived(emits: Iterable[Emit], partition: int) -> Iterable[Outgoing]:
    """The records of derived topics, each naming the record of `partition` that caused it."""
    for emit in emits:
        cause = f"{emit.cause.topic}:{partition}:{emit.cause.offset}"
        yield emit.topic, emit.key, emit.value, [(SOURCE_HEADER, cause.encode())]


def dead_letters(
    app: App, dead: Sequence[DeadLetter], source: tuple[str, int], headers: Mapping[int, Headers]
) -> Iterable[Outgoing]:
    """The records for the dead-letter topic: the value as it was, where and why in the headers (KIP-1034).

    The key names topic, partition and offset, so that a repeat after a crash can be told; the original key is a header.
    """
    topic, partition = source
    for letter in dead:
        why: Headers = [
            ("__streams.errors.exception", type(letter.error).__name__.encode()),
            ("__streams.errors.message", str(letter.error).encode()),
            ("__streams.errors.topic", topic.encode()),
            ("__streams.errors.partition", str(partition).encode()),
            ("__streams.errors.offset", str(letter.offset).encode()),
            ("x-service", app.name.encode()),
        ]
        if letter.key is not None:
            why.append(("x-key", letter.key))
        key = f"{topic}:{partition}:{letter.offset}".encode()
        yield app.dead_letters, key, letter.value, [*headers.get(letter.offset, []), *why]


def shortened(app: App, record: Outgoing) -> Outgoing:
    """The dead letter for a record that is too large for its topic: its first kilobyte, length and SHA-256.

    A derived record becomes one too, under the place of its cause.
    """
    topic, key, value, headers = record
    content = value or b""
    kept = [(name, of) for name, of in headers if len(of or b"") <= SHORT and name.startswith(_OWN)]
    size = [("x-value-bytes", str(len(content)).encode()), (SHA256_HEADER, sha256(content).hexdigest().encode())]
    if topic != app.dead_letters:
        key = next(of for name, of in headers if name == SOURCE_HEADER and isinstance(of, bytes))
        size += [("__streams.errors.message", f"too large for {topic}".encode()), ("x-service", app.name.encode())]
    return app.dead_letters, key, content[:SHORT], [*kept, *size]


def original_headers(
    bootstrap: str, source: tuple[str, int], offsets: Sequence[int], security: Security = OPEN
) -> dict[int, Headers]:
    """The headers of the records at `offsets` (ascending, not empty), read from Kafka again.

    Only dead letters need headers; carrying them through Spark for every record costs three times the whole decoding.
    A record that Kafka has deleted meanwhile is not in the answer.
    """
    wanted, last = set(offsets), offsets[-1]
    found: dict[int, Headers] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "streamstate-dead-letters",
            "enable.auto.commit": False,
            **security.client(),
            **QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(*source, offsets[0])])
        at = -1
        while at < last and (message := consumer.poll(TIMEOUT_S)) is not None:
            if error := message.error():
                raise KafkaException(error)
            at = message.offset() or 0
            if at in wanted:
                found[at] = _listed(message.headers())
    finally:
        consumer.close()
    return found


def _listed(headers: dict[str, str | bytes | None] | Headers | None) -> Headers:
    return list(headers.items()) if isinstance(headers, dict) else headers or []
