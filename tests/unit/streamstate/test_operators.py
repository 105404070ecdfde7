"""Tables, pages of a timeline, totals."""

import uuid
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.app import App, Totals
from streamstate.errors import BadKey, BadRecord
from streamstate.kafka.totals import has_reached, reads, summed
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
from streamstate.operators.pages import Page
from streamstate.operators.tables import look_up, table
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Insert, Merge
from streamstate.state.store import Commit, OffsetAdvance, TopicPartition
from streamstate.testing import Driver
from tests.raw import NO_IDS

# A topic as a table: the last value of each key, looked up by others.


def upper(_key: object, value: bytes) -> str:
    return value.decode().upper()


CITIES = table("cities", LONG, upper)
PORTS = table("ports", TEXT, upper)
PLACES = App("places", (CITIES, PORTS))
COUNTS = {"cities": 4, "ports": 2}


def test_each_table_is_found_by_its_own_number_of_partitions() -> None:
    driver = Driver(App("places", (PORTS,)), MemoryStore(), COUNTS["ports"])
    for offset, name in enumerate(["kiel", "brest", "genua"]):
        raw = TEXT.encode(name)
        driver.feed(partition_of(raw, 2), {"ports": [(offset, 0, raw, raw)]})
    found = look_up(PLACES, driver.store, COUNTS, {"ports": ["kiel", "brest", "genua"]})
    assert found == {"ports": {"kiel": "KIEL", "brest": "BREST", "genua": "GENUA"}}


# Pages of a timeline: together they are the whole, in order, each entry once.


def parse(**given: str) -> Page:
    return msgspec.convert(given, Page, strict=False)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 5)),
    st.integers(1, 4),
    st.integers(0, 4),
    st.sampled_from(["asc", "desc"]),
)
def test_pages_follow_each_other(entries: dict[str, int], limit: int, first: int, order: str) -> None:
    store = MemoryStore()
    store.commit(Commit(store.claim(0, "a:1", {}), [OffsetAdvance("t", None, 1)], [Insert("i", "k", entries)]))
    given = {"from": str(first), "to": "5", "limit": str(limit), "order": order}
    page = parse(**given)
    assert (page.cut(store.read({0: page.reads("i:k")})[0].values) is None) == (entries == {})
    seen: list[tuple[str, int]] = []
    while (cut := page.cut(store.read({0: page.reads("i:k")})[0].values)) is not None:
        part, cursor = cut
        assert len(part) <= limit
        seen += part
        if cursor is None:
            break
        assert part
        page = parse(**given, cursor=cursor)
    wanted = [(text, time) for text, time in entries.items() if first <= time < 5]
    assert seen == sorted(wanted, key=lambda entry: (entry[1], entry[0]), reverse=order == "desc")


# Totals, and the state behind totals.

A, B = ("t", 0), ("t", 1)
TOTALS = (Totals("out", "sums"), Totals("other", "more"))


def test_fields_are_summed_over_all_partitions() -> None:
    store = MemoryStore()
    for partition in range(3):
        step = [Merge("sums", add={"a": 1, f"p{partition}": partition}), Merge("more", add={"a": 10})]
        store.commit(Commit(store.claim(partition, "a:1", {}), [OffsetAdvance("t", None, 1)], step))
    found = summed(TOTALS, store.read(dict.fromkeys(range(4), reads(TOTALS))).values())
    ours = {("out", "a"): 3, ("out", "p0"): 0, ("out", "p1"): 1, ("out", "p2"): 2}
    assert found == {**ours, ("other", "a"): 30}


@pytest.mark.parametrize(
    ("positions", "reached"), [({}, False), ({A: 4, B: 9}, False), ({A: 5}, False), ({A: 5, B: 7}, True)]
)
def test_a_state_publishes_once_it_has_read_what_the_last_totals_were_made_of(
    positions: Mapping[TopicPartition, int], *, reached: bool
) -> None:
    assert has_reached(positions, {A: 5, B: 7}) is reached
    assert has_reached(positions, {})


# Keys in their three spellings, and the partition that holds them.

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
