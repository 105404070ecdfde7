"""The records that a service writes about records: derived ones and dead letters."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from confluent_kafka import Message

from streamstate.app import App, Emit
from streamstate.kafka.producer import Headers, Outgoing
from streamstate.kafka.reading import read_to_end
from streamstate.kafka.security import OPEN, Security
from streamstate.marker import HEADER, Marker
from streamstate.processing.decode import DeadLetter, Stage

SHA256_HEADER, TOPIC_ID_HEADER = "x-value-sha256", "x-topic-id"
STAGE_HEADER, TOPIC_HEADER = "x-stage", "x-topic"
SHORT = 1_024
"""Bytes of a value that is too large, and of a header beside it, that are kept."""

_OWN = ("__streams.errors.", "x-", HEADER)


def derived(emits: Iterable[Emit], partition: int, topic_ids: Mapping[str, str]) -> Iterable[Outgoing]:
    """The records of derived topics, each with its `Marker`; `emits` are all that their causes in `partition` emit."""
    numbers: Counter[tuple[str, int]] = Counter()
    for emit in emits:
        topic, offset = cause = emit.cause.topic, emit.cause.offset
        marker = Marker(topic_ids[topic], partition, offset, numbers[cause])
        numbers[cause] += 1
        yield emit.topic, emit.key, emit.value, [(HEADER, marker.encode())]


def dead_letters(
    app: App, dead: Sequence[DeadLetter], source: tuple[str, int], topic_id: str, headers: Mapping[int, Headers]
) -> Iterable[Outgoing]:
    """The records for the dead-letter topic: the value as it was, where and why in the headers (KIP-1034).

    The key names topic, partition and offset, by which readers recognize a repeat after a crash. The original key is a
    header.
    """
    topic, partition = source
    for letter in dead:
        why: Headers = [
            ("__streams.errors.exception", type(letter.error).__name__.encode()),
            ("__streams.errors.message", str(letter.error).encode(errors="replace")[:SHORT]),
            ("__streams.errors.topic", topic.encode()),
            ("__streams.errors.partition", str(partition).encode()),
            ("__streams.errors.offset", str(letter.offset).encode()),
            ("x-service", app.name.encode()),
            (TOPIC_ID_HEADER, topic_id.encode()),
            (STAGE_HEADER, letter.stage.encode()),
        ]
        if letter.key is not None:
            why.append(("x-key", letter.key))
        key = f"{topic}:{partition}:{letter.offset}".encode()
        yield app.dead_letters, key, letter.value, [*headers.get(letter.offset, []), *why]


def cause_of(letter: Message) -> tuple[str, int, int] | None:
    """Topic id, partition and offset of the record that `letter` is of, None when it does not say."""
    topic_id = dict(letter.headers() or []).get(TOPIC_ID_HEADER)
    match (letter.key() or b"").decode(errors="replace").rsplit(":", 2):
        case [_, partition, offset] if isinstance(topic_id, bytes) and partition.isdigit() and offset.isdigit():
            return topic_id.decode(errors="replace"), int(partition), int(offset)
    return None


def stage_of(letter: Message) -> Stage | None:
    """Where the record that `letter` is of was refused, None when it does not say."""
    stages: dict[str | bytes | None, Stage] = {b"decode": "decode", b"timestamp": "timestamp", b"fold": "fold"}
    return stages.get(dict(letter.headers() or []).get(STAGE_HEADER))


def shortened(app: App, record: Outgoing) -> Outgoing:
    """The dead letter for a record that is too large for its topic: its first kilobyte, length and SHA-256.

    A derived record becomes one too, with its marker as the key and the topic that it was for as a header.
    """
    topic, key, value, headers = record
    content = value or b""
    kept = [(name, text) for name, text in headers if len(text or b"") <= SHORT and name.startswith(_OWN)]
    size = [("x-value-bytes", str(len(content)).encode()), (SHA256_HEADER, sha256(content).hexdigest().encode())]
    if topic != app.dead_letters:
        key = next(text for name, text in headers if name == HEADER and isinstance(text, bytes))
        message = f"too large for {topic}".encode()
        service = app.name.encode()
        size += [("__streams.errors.message", message), ("x-service", service), (TOPIC_HEADER, topic.encode())]
    return app.dead_letters, key, content[:SHORT], [*kept, *size]


def original_headers(
    bootstrap: str, source: tuple[str, int], offsets: Sequence[int], security: Security = OPEN
) -> dict[int, Headers]:
    """The headers of the records at `offsets` (ascending, not empty), read from Kafka again.

    Only dead letters need headers; carrying them through Spark for every record costs three times the whole decoding.
    A record that Kafka has deleted meanwhile is not in the answer.
    """
    wanted = set(offsets)
    by_offset: dict[int, Headers] = {}
    for message in read_to_end(bootstrap, {source: offsets[0]}, security):
        offset = message.offset() or 0
        if offset in wanted:
            by_offset[offset] = _listed(message.headers())
        if offset >= offsets[-1]:
            break
    return by_offset


def _listed(headers: dict[str, str | bytes | None] | Headers | None) -> Headers:
    return list(headers.items()) if isinstance(headers, dict) else headers or []
