"""Clicks per region, against totals that were counted by hand."""

from typing import Any

import pytest

from services.clicks.model import APP, UNKNOWN, USER_CLICKS, USER_REGIONS
from streamstate.errors import Misconfigured
from streamstate.keys import partition_of
from streamstate.processing.decode import RawRecord
from streamstate.processing.fitness import require_copartitioned
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin
from streamstate.testing import Driver
from tests.raw import plain

# Worked examples, their answers counted by hand.

Line = tuple[int, str, str, str | None]
"""Milliseconds, topic, key, value."""

_R, _C = "user-regions", "user-clicks"

# Amy moves from asia to europe at 20, Bob clicks before his first region, Zoe has none, Ivy's is taken away at 30.
CLICKS: list[Line] = [
    *((1, _R, user, "asia") for user in ("amy", "cat", "dan")),
    *((1, _R, user, "europe") for user in ("eve", "fay", "gus")),
    *((1, _R, user, "americas") for user in ("hal", "ivy", "jim", "kim")),
    *((10, _C, user, "1") for user in ("amy", "cat", "dan", "eve", "fay", "gus", "hal", "ivy", "jim", "kim")),
    (11, _C, "bob", "100"),
    (12, _C, "zoe", "7"),
    (20, _R, "amy", "europe"),
    (20, _C, "amy", "30"),
    (21, _R, "bob", "asia"),
    (22, _C, "bob", "5"),
    (25, _C, "kim", "0"),
    (30, _R, "ivy", None),
    (31, _C, "ivy", "40"),
]
TOTALS = {"americas": 1 + 1 + 1 + 1, "asia": 1 + 1 + 1 + 5, "europe": 1 + 1 + 1 + 30, "UNKNOWN": 100 + 7 + 40}

PARTITIONS = 3


def batch(lines: list[Line], partition: int, first: int = 0) -> dict[str, list[RawRecord]]:
    """The lines of `partition`; offsets from `first`."""
    records: dict[str, list[RawRecord]] = {USER_REGIONS: [], USER_CLICKS: []}
    for offset, (time, topic, user, value) in enumerate(lines, first):
        if partition_of(user.encode(), PARTITIONS) == partition:
            records[topic].append((offset, time, user.encode(), None if value is None else value.encode()))
    return records


def counted(*batches: list[Line]) -> Driver:
    driver, first = Driver(APP, MemoryStore(), PARTITIONS), 0
    for lines in batches:
        for partition in range(PARTITIONS):
            driver.feed(partition, batch(lines, partition, first))
        first += len(lines)
    return driver


def totals(driver: Driver) -> dict[str, int]:
    return {row["region"]: row["clicks"] for row in plain(driver.view("regions"))["regions"]}


def test_the_worked_example_has_the_totals_counted_by_hand() -> None:
    driver = counted(CLICKS)
    assert totals(driver) == TOTALS
    assert list(totals(driver)) == sorted(TOTALS)
    assert plain(driver.view("region", "europe")) == {"region": "europe", "clicks": 33}
    assert driver.view("region", "atlantis") is None


BAD: list[Any] = [
    None,
    b"",
    b"-1",
    b"+1",
    b"1.5",
    b" 1",
    b"1e3",
    b"-0",
    "\u0661".encode(),
    b"9007199254740993",
    b"0" * 17,
]


@pytest.mark.parametrize("value", BAD)
def test_clicks_that_are_no_number_from_0_are_dead_letters(value: bytes | None) -> None:
    driver = counted()
    partition = partition_of(b"amy", PARTITIONS)
    driver.feed(partition, {USER_CLICKS: [(0, 1, b"amy", value), (1, 1, b"amy", b"2")]})
    assert totals(driver) == {UNKNOWN: 2}
    assert [letter.value for letter in driver.dead] == [value]


@pytest.mark.parametrize("value", [b"", b"\xff", b"x" * 1025])
def test_a_region_that_can_be_no_key_is_a_dead_letter(value: bytes) -> None:
    driver = counted()
    driver.feed(partition_of(b"amy", PARTITIONS), {USER_REGIONS: [(0, 1, b"amy", value)]})
    assert [letter.value for letter in driver.dead] == [value]


def test_topics_that_are_not_co_partitioned_are_refused_with_the_reason() -> None:
    require_copartitioned(APP, {USER_CLICKS: Origin("a", 4), USER_REGIONS: Origin("b", 4)})
    with pytest.raises(Misconfigured, match="user-regions has 4 and user-clicks has 8 partitions; make them equal"):
        require_copartitioned(APP, {USER_CLICKS: Origin("a", 8), USER_REGIONS: Origin("b", 4)})
