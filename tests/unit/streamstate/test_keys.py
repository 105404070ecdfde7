"""Keys in their three spellings, and the partition that holds them."""

import struct
import uuid
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.errors import BadKey, BadRecord
from streamstate.keys import (
    CODECS,
    INT,
    LONG,
    LONG_MAX,
    PAIR,
    TEXT,
    TEXT_MAX_BYTES,
    UUID,
    partition_of,
    sortable,
    unsortable,
)
from streamstate.web.server.parameters import many_operations

with warnings.catch_warnings():
    # kafka-python reads its own schemas in a deprecated way while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2  # type: ignore[import-untyped]  # it has no annotations

quick = settings(max_examples=200)
ids = st.integers(0, LONG_MAX) | st.integers(0, 1_000)
texts = st.text(min_size=1, max_size=200).filter(str.isprintable)

NO_IDS = [
    "abc", "", "-1", "+1", " 1", "1 ", "1\n", "1_000", "１", "٣", "²", "00012", "00", "1e3", "1.0", "0x10", "NaN",  # noqa: RUF001
    "9223372036854775808", "9" * 10_000, "\0", "1\0", "../1", "1/2", "true", "\udcff",
]  # fmt: skip


@quick
@given(ids)
def test_a_long_survives_kafka_and_the_url(key: int) -> None:
    raw = LONG.encode(key)
    assert raw == key.to_bytes(8, "big")
    assert LONG.decode(raw) == key
    assert LONG.parse(str(key)) == key


@quick
@given(st.integers(0, 2**31 - 1))
def test_an_int_survives_kafka_and_the_url(key: int) -> None:
    raw = INT.encode(key)
    assert raw == struct.pack(">i", key)
    assert INT.decode(raw) == key
    assert INT.parse(str(key)) == key


@quick
@given(st.uuids())
def test_a_uuid_survives_kafka_and_the_url(key: uuid.UUID) -> None:
    assert UUID.decode(UUID.encode(str(key))) == str(key)
    assert UUID.parse(str(key)) == str(key)


@quick
@given(texts.filter(lambda text: ":" not in text), texts)
def test_a_key_of_two_parts_survives_kafka_and_the_url(store: str, item: str) -> None:
    key = f"{store}:{item}"
    assert PAIR.decode(PAIR.encode(key)) == key
    assert PAIR.parse(key) == key
    assert key.partition(":") == (store, ":", item)


@quick
@given(texts)
def test_a_text_survives_kafka_and_the_url(key: str) -> None:
    assert TEXT.decode(TEXT.encode(key)) == key
    assert TEXT.parse(key) == key


@pytest.mark.parametrize("text", ["0", "1", "42", "9007199254740993", "9223372036854775807"])
def test_an_id_is_plain_digits(text: str) -> None:
    assert str(LONG.parse(text)) == text


@pytest.mark.parametrize("text", NO_IDS, ids=lambda text: ascii(text[:20]))
def test_anything_else_is_no_id_and_the_error_says_what_is(text: str) -> None:
    with pytest.raises(BadKey, match="whole number from 0 to 9223372036854775807, in plain digits"):
        LONG.parse(text)


@quick
@given(st.text(max_size=30))
def test_an_id_is_written_in_one_way_only(text: str) -> None:
    try:
        key = LONG.parse(text)
    except BadKey:
        return
    assert str(key) == text


@pytest.mark.parametrize(
    ("raw", "found"),
    [(None, "null"), (b"", "0 bytes"), (b"1234", "4 bytes"), (b"1234567", "7 bytes"), (b"123456789", "9 bytes")],
)
def test_a_long_key_of_another_size_is_a_bad_record(raw: bytes | None, found: str) -> None:
    with pytest.raises(BadRecord, match=f"8 bytes, big-endian; found {found}"):
        LONG.decode(raw)


@pytest.mark.parametrize("text", ["-1", "2147483648", "01", "1.0", ""])
def test_an_int_is_written_in_one_way_only(text: str) -> None:
    with pytest.raises(BadKey, match="whole number from 0 to 2147483647, in plain digits"):
        INT.parse(text)


def test_an_int_key_of_another_size_is_a_bad_record() -> None:
    with pytest.raises(BadRecord, match="type int in 4 bytes, big-endian; found 8 bytes"):
        INT.decode(bytes(8))


@pytest.mark.parametrize("text", [str(uuid.UUID(int=1)).replace("-", ""), str(uuid.UUID(int=10)).upper(), "", "1"])
def test_another_spelling_of_a_uuid_is_no_key(text: str) -> None:
    with pytest.raises(BadKey, match="36 characters, in lower case"):
        UUID.parse(text)
    with pytest.raises(BadRecord):
        UUID.decode(text.encode())


@pytest.mark.parametrize("text", ["store", "store:", ":item", ":", ""])
def test_a_key_of_one_part_is_no_pair(text: str) -> None:
    with pytest.raises(BadKey, match="two parts with a colon between them"):
        PAIR.parse(text)
    with pytest.raises(BadRecord):
        PAIR.decode(text.encode())


@pytest.mark.parametrize("raw", [b"\xff" * 8, (-1).to_bytes(8, "big", signed=True), b"\x80" + bytes(7)])
def test_a_negative_long_key_is_a_bad_record(raw: bytes) -> None:
    with pytest.raises(BadRecord, match="0 or greater"):
        LONG.decode(raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, "found none"),
        (b"", "found none"),
        (b"x" * (TEXT_MAX_BYTES + 1), "found 1025"),
        (b"caf\xe9", "not UTF-8: .* at byte 3"),
    ],
)
def test_a_text_key_that_is_none_is_a_bad_record(raw: bytes | None, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        TEXT.decode(raw)


@pytest.mark.parametrize("text", ["", "\0", "a\nb", "\x7f", "\udcff", "x" * 1025, "é" * 513])
def test_a_text_that_cannot_be_a_key_in_a_url(text: str) -> None:
    with pytest.raises(BadKey, match="1 to 1024 bytes without control characters"):
        TEXT.parse(text)


@pytest.mark.parametrize(
    "text", [" ", "\N{NO-BREAK SPACE}", "\N{FAMILY}\N{ZERO WIDTH JOINER}\N{GIRL}", "\N{RIGHT-TO-LEFT MARK}א"]
)
def test_text_that_does_not_print_is_a_key_all_the_same(text: str) -> None:
    assert TEXT.parse(text) == text


def test_the_longest_text_is_a_key() -> None:
    assert TEXT.decode(TEXT.encode(TEXT.parse("é" * 512))) == "é" * 512


def test_codecs_are_found_by_the_names_that_processors_shows() -> None:
    assert list(CODECS) == [
        *("long", "int", "text", "uuid", "pair"),
        *("digits", "long-text", "int-text", "double", "bytes"),
    ]
    assert {name: codec.name for name, codec in CODECS.items()} == {name: name for name in CODECS}


def test_every_codec_is_documented() -> None:
    item: dict[str, Any] = {method: {"parameters": []} for method in ("get", "post")}
    documented = many_operations(item, {name: name for name in CODECS})
    assert all(each["schema"]["items"] for each in documented["get"]["parameters"])


@pytest.mark.parametrize(
    ("key", "partition"), [(b"", 681), (b"a", 524), (b"ab", 434), (b"abc", 107), (b"123456789", 566), (b"\x00 ", 742)]
)
def test_partitions_are_those_of_the_java_client(key: bytes, partition: int) -> None:
    assert partition_of(key, 1000) == partition


@pytest.mark.parametrize(("key", "hashed"), [(b"21", -973_932_308), (b"foobar", -790_332_482)])
def test_the_sign_of_the_hash_is_masked(key: bytes, hashed: int) -> None:
    assert partition_of(key, 1_000_003) == (hashed & 0x7FFFFFFF) % 1_000_003


@quick
@given(st.binary(max_size=40), st.integers(1, 100_000))
def test_another_client_places_every_key_alike(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


@quick
@given(ids, st.integers(1, 64))
def test_another_client_places_every_id_alike(key: int, partitions: int) -> None:
    raw = LONG.encode(key)
    assert partition_of(raw, partitions) == (murmur2(raw) & 0x7FFFFFFF) % partitions


@quick
@given(st.lists(ids))
def test_sortable_text_sorts_as_its_numbers(numbers: list[int]) -> None:
    assert sorted(map(sortable, numbers)) == [sortable(number) for number in sorted(numbers)]
    assert sorted(sortable(number).encode() for number in numbers) == [
        sortable(number).encode() for number in sorted(numbers)
    ]


@quick
@given(ids)
def test_unsortable_gives_the_number_back(number: int) -> None:
    assert unsortable(sortable(number)) == number
