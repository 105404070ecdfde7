"""The output records of a service: derived records and dead letters.

The headers of a dead letter are its record's headers, followed by its own, which begin with `EXCEPTION_HEADER`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from streamstate.app import App, Emit
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.producer import Dated, Headers, Outgoing
from streamstate.keys import MARKER_HEADER, Marker
from streamstate.processing.decode import DeadLetter, framed

EXCEPTION_HEADER, MESSAGE_HEADER = "__streams.errors.exception", "__streams.errors.message"
SOURCE_TOPIC_HEADER, TOPIC_ID_HEADER, STAGE_HEADER = "__streams.errors.topic", "x-topic-id", "x-stage"
KEY_HEADER, TIMESTAMP_HEADER = "x-key", "x-timestamp"
"""The record's own."""

SIZE_HEADER, SHA256_HEADER = "x-value-bytes", "x-value-sha256"
"""Headers of a value cut to its first kilobyte."""

SERVICE_HEADER = "x-service"
"""The deployment that wrote the letter."""

TOPIC_HEADER = "x-topic"
"""The derived topic for which a record was too large."""

RECEIPT_HEADER = "x-replayed"
"""Marks a receipt: a record in the dead-letter topic that names a replayed letter."""

HALTED_HEADER = "x-not-committed"
"""The last header of a letter that explains why a stream halted. Its record is still to be folded."""

SHORT = 1_024
"""The kept bytes of an oversized value, and of a header beside it."""

_OWN = ("__streams.errors.", "x-", MARKER_HEADER)


def marked(emits: Iterable[Emit], partition: int, topic_ids: Mapping[str, str]) -> Iterator[tuple[Marker, Emit]]:
    """`emits` with their markers; the arguments are as of `derived`."""
    numbers: Counter[tuple[str, int]] = Counter()
    for emit in emits:
        topic, offset = cause = emit.cause.topic, emit.cause.offset
        yield Marker(topic_ids[topic], partition, offset, numbers[cause]), emit
        numbers[cause] += 1


def derived(
    app: App, emits: Iterable[Emit], partition: int, topic_ids: Mapping[str, str]
) -> Iterable[Outgoing | Dated]:
    """The records of derived topics, each with its `Marker`; `emits` are all emits of their causes in `partition`.

    `topic_ids` are the ids of the causes' topics, by the service's topic names.
    """
    for marker, emit in marked(emits, partition, topic_ids):
        of = app.emits[emit.topic]
        key, value = of.encode(emit.key, emit.value)
        record: Outgoing = (app.output(emit.topic), key, value, [(MARKER_HEADER, marker.encode())])
        yield (*record, emit.cause.timestamp) if of.dated else record


def dead_letters(
    app: App, dead: Sequence[DeadLetter], source: tuple[str, int], topic_id: str, headers: Mapping[int, Headers]
) -> Iterable[Outgoing]:
    """The records for the dead-letter topic: the unchanged value, with place and reason in the headers (KIP-1034).

    The key names topic, partition and offset, by which readers recognize a repeat after a crash. The original key is a
    header.
    """
    topic, partition = source
    for letter in dead:
        why: Headers = [
            (EXCEPTION_HEADER, type(letter.error).__name__.encode()),
            (MESSAGE_HEADER, str(letter.error).encode(errors="replace")[:SHORT]),
            (SOURCE_TOPIC_HEADER, topic.encode()),
            ("__streams.errors.partition", str(partition).encode()),
            ("__streams.errors.offset", str(letter.offset).encode()),
            (SERVICE_HEADER, app.name.encode()),
            (TOPIC_ID_HEADER, topic_id.encode()),
            (STAGE_HEADER, letter.stage.encode()),
        ]
        if letter.timestamp >= 0:
            why.append((TIMESTAMP_HEADER, str(letter.timestamp).encode()))
        if letter.key is not None:
            why.append((KEY_HEADER, letter.key))
        key = f"{topic}:{partition}:{letter.offset}".encode()
        yield app.dead_letters, key, letter.value, [*headers.get(letter.offset, []), *why]


def halting(letters: Iterable[Outgoing]) -> Iterable[Outgoing]:
    """`letters` of an uncommitted commit, marked as the reason why the stream halts."""
    return ((topic, key, value, [*headers, (HALTED_HEADER, b"")]) for topic, key, value, headers in letters)


def shortened(app: App, record: Outgoing | Dated) -> Outgoing:
    """The dead letter for a record that is too large for its topic: its first kilobyte, length and SHA-256.

    A derived record also becomes a dead letter, with its marker as the key and its topic as a header.
    """
    topic, key, value, headers = record[:4]
    content = value or b""
    kept = [(name, text) for name, text in headers if len(text or b"") <= SHORT and name.startswith(_OWN)]
    size = [(SIZE_HEADER, str(len(content)).encode()), (SHA256_HEADER, sha256(content).hexdigest().encode())]
    # The last header tells the kind of a letter.
    last = [kept.pop()] if kept and kept[-1][0] == HALTED_HEADER else []
    if topic != app.dead_letters:
        key = next(text for name, text in headers if name == MARKER_HEADER and isinstance(text, bytes))
        message = f"too large for {topic}".encode()
        size += [(MESSAGE_HEADER, message), (SERVICE_HEADER, app.name.encode()), (TOPIC_HEADER, topic.encode())]
    return app.dead_letters, key, content[:SHORT], [*kept, *size, *last]


def unframed(letter: DeadLetter, headers: Headers) -> DeadLetter:
    """`letter` with key and value without the schema ids of its record's `headers`."""
    key, value = framed(headers, b"", b"")
    return replace(
        letter,
        key=None if letter.key is None else letter.key.removeprefix(key or b""),
        value=None if letter.value is None else letter.value.removeprefix(value or b""),
    )


def original_headers(history: TopicHistory, source: tuple[str, int], offsets: Sequence[int]) -> dict[int, Headers]:
    """The headers of the records at `offsets` (ascending, not empty), read again.

    Only dead letters need headers; carrying headers through Spark for every record costs three times the whole
    decoding. Records deleted meanwhile are omitted.
    """
    wanted = set(offsets)
    with history.log(source, max(offsets[0], history.begins([source])[source])) as log:
        found = (message for message in log.up_to(offsets[-1] + 1) if message.offset() in wanted)
        return {message.offset() or 0: listed(message.headers()) for message in found}


def listed(headers: dict[str, str | bytes | None] | Headers | None) -> Headers:
    """The headers of a record as a list; confluent-kafka has several forms."""
    return list(headers.items()) if isinstance(headers, dict) else headers or []
