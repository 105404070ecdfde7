"""Raw Kafka records as the tests write them, and texts that no parser may take."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.testing import Driver

T = TypeVar("T")


class ByTopic(dict[str, T]):
    """What a test knows of the records of each topic that a service reads.

    where: the place of the entries. example: an entry for a further topic.
    """

    def __init__(self, where: str, example: str, entries: Mapping[str, T]) -> None:
        super().__init__(entries)
        self._advice = f"add a line such as {example} to {where}"

    def __missing__(self, topic: str) -> T:
        msg = f"a service reads the topic {topic}, and the tests know none of its records: {self._advice}"
        raise LookupError(msg.replace("TOPIC", topic))


Play = tuple[int, int, int, int, int]
"""User, artist, album, track, milliseconds."""


def play_json(play: Play) -> bytes:
    names = ("userId", "artistId", "albumId", "trackId", "timestamp")
    return json.dumps(dict(zip(names, play, strict=True))).encode()


def name_json(key: int, name: str) -> bytes:
    return json.dumps({"id": key, "name": name}).encode()


def feed(driver: Driver, topic: str, records: list[tuple[int, bytes | None]]) -> None:
    """Bring (long key, value) to their partitions, behind what is there, one batch for each partition."""
    batches: dict[int, list[RawRecord]] = {}
    for key, value in records:
        raw_key = LONG.encode(key)
        partition = partition_of(raw_key, driver.partitions)
        batch = batches.setdefault(partition, [])
        start = driver.store.read({partition: []})[partition].positions.get(topic, 0)
        batch.append((start + len(batch), 1_000, raw_key, value))
    for partition, batch in batches.items():
        driver.feed(partition, {topic: batch})


def feed_plays(driver: Driver, plays: list[Play]) -> None:
    feed(driver, "listening-events", [(play[0], play_json(play)) for play in plays])


def feed_name(driver: Driver, kind: str, key: int, name: str | None) -> None:
    feed(driver, kind, [(key, None if name is None else name_json(key, name))])


def plain(answer: Any) -> Any:
    """An answer of a view as JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(answer))


# Invalid texts, for all parsers.

NO_IDS = [
    "abc", "-1", "+1", " 1", "1 ", "1\n", "1_000", "１", "٣", "²", "00012", "00", "1e3", "1.0", "0x10", "NaN",  # noqa: RUF001
    "9223372036854775808", "9" * 5_000, "\0", "1\0", "../1", "1/2", "true", "7;a=b",
]  # fmt: skip
"""As they are meant; in a path they are percent-encoded."""
