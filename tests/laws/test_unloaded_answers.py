"""The answers for all keys of a state equal the answers of its view, for every form of keys and of state."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from devkit.registry import app as app_of
from services.events import LISTENING_EVENTS
from streamstate.app import App
from streamstate.errors import Declined
from streamstate.history.answers.columns import Columns
from streamstate.history.answers.unloading import MANIFEST, POSITION, Unloading, key_pattern
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.testing import Driver
from streamstate.view import View
from tests.raw import name_json, play_json

TAKEN = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT = round(TAKEN.timestamp() * 1_000)

Raw = dict[str, list[RawRecord]]


def raw(topic: str, *records: tuple[bytes, bytes]) -> Raw:
    return {topic: [(offset, AT - 1_000, key, value) for offset, (key, value) in enumerate(records)]}


PLAYS = raw(
    LISTENING_EVENTS, *((LONG.encode(user), play_json((user, 5, 6, 7, AT - 1_000))) for user in (1, 22, 333, 22))
)
TEXTS = ("anna", "a:b", "x.y", "ü", "1234567891")
BOOKINGS = raw("bookings", *((LONG.encode(n), b'{"price": 1, "amount": 1}') for n in (1, 9)))
CASES: dict[tuple[str, str], tuple[Raw, set[str]]] = {
    ("metrics", "metrics"): (PLAYS, {"1", "22", "333"}),
    ("profile", "habits"): (PLAYS, {"1", "22", "333"}),
    ("names", "recent"): (PLAYS, {"1", "22", "333"}),
    ("names", "artists"): (raw("artists", *((LONG.encode(n), name_json(n, "x")) for n in (1, 9))), {"1", "9"}),
    ("notifications", "notifications"): (
        raw("open", *((text.encode(), b"Closed") for text in TEXTS)),
        {*TEXTS},
    ),
    ("topics", "topic-bookings"): (BOOKINGS, {"1", "9"}),
    ("topics", "topic-bookings-range"): (BOOKINGS, {"1", "9"}),
}


def case(name: str, view: str, redis_name: Callable[[], str], client: Client) -> tuple[App, View[Any], Driver]:
    app = replace(app_of(name), name=redis_name())
    driver = Driver(app, RedisStore(client, app.name))
    return app, next(each for each in app.views if each.name == view), driver


@pytest.mark.parametrize(("name", "view"), CASES, ids=str)
def test_all_keys_are_written(
    name: str, view: str, redis_client: Any, redis_name: Callable[[], str], tmp_path: Path
) -> None:
    app, of, driver = case(name, view, redis_name, redis_client)
    records, keys = CASES[name, view]
    driver.feed(0, records)
    made = Unloading(app, of, {0: redis_client}, TAKEN, {}).write(str(tmp_path))
    folder = tmp_path / view / "taken=2026-01-01T12-00-00Z"
    assert json.loads((folder / MANIFEST).read_text())["positions"] == {"0": made.positions[0]}
    table = pq.read_table(folder / "00000.parquet")
    assert (table.schema.metadata or {})[POSITION].decode() == made.positions[0]
    assert made.rows == table.num_rows == len(keys)
    assert set(table["key"].to_pylist()) == keys
    columns = Columns(type(of.example))
    for row in table.to_pylist():
        query = of.query(at=AT) if name == "profile" and of.query else None
        answer = driver.view(view, row.pop("key"), query)
        assert [*row.values()] == [array[0].as_py() for array in columns.arrays([answer])]


def test_deleted_users_are_left_out(redis_client: Any, redis_name: Callable[[], str], tmp_path: Path) -> None:
    app, view, driver = case("metrics", "metrics", redis_name, redis_client)
    driver.feed(0, PLAYS)
    made = Unloading(app, view, {0: redis_client}, TAKEN, {0: {LONG.encode(22)}}).write(str(tmp_path))
    assert set(pq.read_table(made.folder, partitioning=None)["key"].to_pylist()) == {"1", "333"}


def test_keys_in_a_partition_where_no_reader_looks_are_left_out(
    redis_client: Any, redis_name: Callable[[], str], tmp_path: Path
) -> None:
    app = replace(app_of("metrics"), name=redis_name())
    view = next(each for each in app.views if each.name == "metrics")
    driver = Driver(app, RedisStore(redis_client, app.name), partitions=2)
    driver.feed(0, PLAYS)
    made = Unloading(app, view, {0: redis_client}, TAKEN, {}).write(str(tmp_path))
    here = {key for key in ("1", "22", "333") if partition_of(LONG.encode(int(key)), 2) == 0}
    assert 0 < len(here) < 3
    assert set(pq.read_table(made.folder, partitioning=None)["key"].to_pylist()) == here


def test_a_state_in_its_build_is_refused(redis_client: Any, redis_name: Callable[[], str], tmp_path: Path) -> None:
    app, view, driver = case("metrics", "metrics", redis_name, redis_client)
    driver.store.claim(0, "a:1", {LISTENING_EVENTS: 10})
    driver.store.claim(1, "a:1", {LISTENING_EVENTS: 10})
    with pytest.raises(Declined, match=r"partition 1 of .* is being built"):
        Unloading(app, view, {1: redis_client}, TAKEN, {}).write(str(tmp_path))
    assert [*tmp_path.rglob("*.parquet")] == [*tmp_path.rglob(MANIFEST)] == []


@pytest.mark.parametrize(("name", "view"), [("metrics", "plays"), ("clicks", "region")])
def test_a_view_without_own_keys_is_refused(name: str, view: str) -> None:
    app = app_of(name)
    with pytest.raises(Declined, match="is about all keys together"):
        key_pattern(app, next(each for each in app.views if each.name == view))
