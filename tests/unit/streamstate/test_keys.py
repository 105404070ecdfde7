"""Keys in their three spellings, and the partition that holds them."""

import uuid
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.errors import BadKey, BadRecord
from streamstate.keys import (
    INT,
    LONG,
    LONG_MAX,
    PAIR,
    TEXT,
    TEXT_MAX_BYTES,
    UUID,
    KeyCodec,
    partition_of,
    sortable,
    unsortable,
)
from tests.texts import NO_IDS

with warnings.catch_warnings():
    # kafka-python reads its own schemas in a deprecated way while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2  # type: ignore[import-untyped]  # it has no annotations

quick = settings(max_examples=200)
ids = st.integers(0, LONG_MAX) | st.integers(0, 1_000)
texts = st.text(min_size=1, max_size=200).filter(str.isprintable)
pairs = st.tuples(texts.filter(lambda text: ":" not in text), texts).map(":".join)
WRITTEN: list[tuple[KeyCodec[Any], st.SearchStrategy[Any]]] = [
    (LONG, ids), (INT, st.integers(0, 2**31 - 1)), (UUID, st.uuids().map(str)), (PAIR, pairs), (TEXT, texts),
    (TEXT, st.just("é" * 512)), (LONG, st.sampled_from([0, 2**53 + 1, LONG_MAX])),
    (TEXT, st.sampled_from([" ", "\N{NO-BREAK SPACE}", "\N{FAMILY}\N{ZERO WIDTH JOINER}", "\N{RIGHT-TO-LEFT MARK}א"])),
]  # fmt: skip
"""Each type with keys of it."""


@pytest.mark.parametrize(("codec", "keys"), WRITTEN, ids=lambda given: getattr(given, "name", ""))
@quick
@given(data=st.data())
def test_a_key_survives_kafka_and_the_url(
    codec: KeyCodec[Any], keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    key = data.draw(keys)
    assert codec.decode(codec.encode(key)) == key
    assert codec.parse(str(key)) == key


@given(ids)
def test_a_number_is_written_as_java_writes_it(key: int) -> None:
    assert LONG.encode(key) == key.to_bytes(8, "big")
    assert INT.encode(key % 2**31) == (key % 2**31).to_bytes(4, "big")


ID, WHOLE = "whole number from 0 to 9223372036854775807, in plain digits", "whole number from 0 to 2147483647, in plain"
NO_KEYS: list[tuple[KeyCodec[Any], str, list[str]]] = [
    (LONG, ID, [*NO_IDS, "", "\udcff"]),
    (INT, WHOLE, ["-1", "2147483648", "01", "1.0", ""]),
    (UUID, "36 characters, in lower case", [uuid.UUID(int=1).hex, str(uuid.UUID(int=10)).upper(), "", "1"]),
    (PAIR, "two parts with a colon between them", ["store", "store:", ":item", ":", ""]),
    (TEXT, "1 to 1024 bytes without control", ["", "\0", "a\nb", "\x7f", "\udcff", "x" * 1025, "é" * 513]),
]


@pytest.mark.parametrize(
    ("codec", "reason", "text"),
    [(codec, reason, text) for codec, reason, given in NO_KEYS for text in given],
    ids=lambda given: ascii(given[:20]) if isinstance(given, str) else given.name,
)
def test_another_text_is_no_key_and_the_error_says_what_is(codec: KeyCodec[Any], reason: str, text: str) -> None:
    with pytest.raises(BadKey, match=reason):
        codec.parse(text)


@quick
@given(st.text(max_size=30))
def test_an_id_is_written_in_one_way_only(text: str) -> None:
    try:
        key = LONG.parse(text)
    except BadKey:
        return
    assert str(key) == text


@pytest.mark.parametrize(
    ("codec", "raw", "reason"),
    [
        *((LONG, raw, "8 bytes, big-endian; found") for raw in (None, b"", b"1234", b"1234567", b"123456789")),
        *((LONG, raw, "0 or greater") for raw in (b"\xff" * 8, b"\x80" + bytes(7))),
        (INT, bytes(8), "type int in 4 bytes, big-endian; found 8 bytes"),
        *((UUID, text.encode(), ".") for text in NO_KEYS[2][2]),
        *((PAIR, text.encode(), ".") for text in NO_KEYS[3][2]),
        *((TEXT, raw, "found none") for raw in (None, b"")),
        (TEXT, b"x" * (TEXT_MAX_BYTES + 1), "found 1025"),
        (TEXT, b"caf\xe9", "not UTF-8: .* at byte 3"),
    ],
)
def test_other_bytes_are_a_bad_record(codec: KeyCodec[Any], raw: bytes | None, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        codec.decode(raw)


@pytest.mark.parametrize(
    ("key", "partition"),
    [(b"", 681), (b"a", 524), (b"ab", 434), (b"abc", 107), (b"123456789", 566), (b"\x00 ", 742)],
)
def test_partitions_are_those_of_the_java_client(key: bytes, partition: int) -> None:
    assert partition_of(key, 1000) == partition


@quick
@given(st.binary(max_size=40) | ids.map(LONG.encode), st.integers(1, 100_000))
def test_another_client_places_every_key_alike(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


@quick
@given(st.lists(ids))
def test_sortable_text_sorts_as_its_numbers_and_gives_them_back(numbers: list[int]) -> None:
    ordered = sorted(numbers)
    assert sorted(map(sortable, numbers)) == [sortable(number) for number in ordered]
    assert sorted(sortable(number).encode() for number in numbers) == [sortable(number).encode() for number in ordered]
    assert [unsortable(sortable(number)) for number in numbers] == numbers
