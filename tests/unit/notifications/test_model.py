"""Messages of notifications, and their number."""

import json
from typing import Any

import pytest

from services.notifications.model import MINUTE_MS, NOTIFICATION_WINDOWS, NOTIFICATIONS, OPEN, SIZE_MS, TICK, app
from services.notifications.settings import GraceSettings
from streamstate.operators.pages import Page
from streamstate.processing.decode import RawRecord
from streamstate.settings import load
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.raw import plain

Line = tuple[int, str, str, str | None]
"""Milliseconds, topic, user, value."""


def fed(*lines: Line, driver: Driver | None = None, first: int = 0) -> Driver:
    """One batch; offsets from `first`."""
    driver = driver or Driver(app(load(GraceSettings)), MemoryStore())
    raw: dict[str, list[RawRecord]] = {OPEN: [], TICK: []}
    for offset, (time, topic, user, value) in enumerate(lines, first):
        raw[topic].append((offset, time, user.encode(), None if value is None else value.encode()))
    driver.feed(0, raw)
    return driver


def messages(driver: Driver) -> list[tuple[str, int]]:
    """Topic and time of the record that each message is about."""
    return [(emit.cause.topic, emit.cause.timestamp) for emit in driver.emitted if emit.topic == NOTIFICATIONS.topic]


def windows(driver: Driver, user: str = "amy", **page: Any) -> dict[int, int]:
    """Counts by start."""
    found = plain(driver.view("notifications", user, Page(**page)))
    assert all(one["end"] == one["start"] + SIZE_MS for one in found["windows"])
    return {one["start"]: one["count"] for one in found["windows"]}


def test_a_closing_is_a_message_and_an_opening_is_none() -> None:
    driver = fed(
        (1, OPEN, "amy", "Open"), (2, OPEN, "amy", "Closed"), (3, OPEN, "amy", "Close"), (4, OPEN, "bob", "Open")
    )
    assert messages(driver) == [("open", 2), ("open", 3)]


def test_a_message_counts_in_every_window_that_it_falls_into() -> None:
    driver = fed((20 * MINUTE_MS + 1, OPEN, "amy", "Closed"), (21 * MINUTE_MS, TICK, "amy", ""))
    counts = dict.fromkeys(range(12 * MINUTE_MS, 20 * MINUTE_MS + 1, MINUTE_MS), 2)
    assert windows(driver) == {11 * MINUTE_MS: 1, **counts, 21 * MINUTE_MS: 1}
    assert windows(driver, from_=20 * MINUTE_MS, to=21 * MINUTE_MS) == {20 * MINUTE_MS: 2}
    assert driver.view("notifications", "bob") is None


def test_every_update_of_a_window_is_published() -> None:
    driver = fed((0, OPEN, "amy", "Closed"), (MINUTE_MS, TICK, "amy", ""))
    updates = [json.loads(emit.value) for emit in driver.emitted if emit.topic == NOTIFICATION_WINDOWS.topic]
    assert updates == [
        {"user": "amy", "windowStart": start, "windowEnd": start + SIZE_MS, "count": count}
        for start, count in ((0, 1), (0, 2), (MINUTE_MS, 1))
    ]


@pytest.mark.parametrize("value", [b"", b"open", b"CLOSED", b"close", b"\xff", b"Closed "])
def test_a_state_that_there_is_not_is_a_dead_letter(value: bytes) -> None:
    driver = fed((1, OPEN, "amy", "Closed"))
    driver.feed(0, {OPEN: [(1, 2, b"amy", value)]})
    assert [letter.value for letter in driver.dead] == [value]
    fed((3, TICK, "amy", ""), driver=driver, first=2)
    assert messages(driver) == [("open", 1), ("tick", 3)]
