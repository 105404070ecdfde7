"""Tables, pages of a timeline, totals."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Totals
from streamstate.kafka.totals import has_reached, reads, summed
from streamstate.keys import LONG, TEXT, partition_of
from streamstate.operators.pages import Page
from streamstate.operators.tables import look_up, table
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Insert, Merge
from streamstate.state.store import Commit, OffsetAdvance, TopicPartition
from streamstate.testing import Driver

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
