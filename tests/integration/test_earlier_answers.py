"""Answers that the APIs gave, replayed from the topics; training sets; and the answers for all keys, unloaded."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import urllib3
from typer.testing import CliRunner, Result

from devkit.events.records import event
from devkit.registry import app as app_of
from services.events import LISTENING_EVENTS
from services.notifications.model import OPEN, TICK
from streamstate.cli.answers.replay import named_view
from streamstate.cli.main import app
from streamstate.cli.services import Deployment, deployments
from streamstate.history.answers.columns import Columns
from streamstate.history.answers.logs import Logs
from streamstate.history.answers.unloading import MANIFEST, POSITION
from streamstate.state.store import offsets_of
from streamstate.view import encoded, parameters
from streamstate.web.http.request import POSITION as HEADER
from tests.integration.driving import Driving
from tests.waiting import REQUEST_S, now_ms, until

ROUNDS, EVENTS, USERS = 2, 400, 25
DELETED = 876_543_210_987
VIEWS = {"metrics": ("metrics", "metrics"), "habits": ("profile", "habits"), "notifications": ("notifications",) * 2}
"""Service and view by the name of the app."""


class Given(NamedTuple):
    """An answer that an API gave."""

    app: str
    key: str
    at: int
    body: bytes
    position: str


def ask(driving: Driving, name: str, key: str, at: int) -> Given:
    """The answer of an instance. Windows end at `at`."""
    path = pattern(*VIEWS[name]).replace("<key>", quote(key))
    query = f"?at={at}" if name == "habits" else ""
    found = urllib3.request("GET", f"http://{driving.cluster.addresses[name][0]}{path}{query}", retries=False)
    assert found.status in (200, 404), found.data
    return Given(name, key, at, found.data if found.status == 200 else b"null", found.headers.get(HEADER, ""))


@cache
def pattern(service: str, view: str) -> str:
    """The path of a view."""
    return next(each.path for each in app_of(service).views if each.name == view)


def deployed(driving: Driving, service: str) -> Deployment:
    [of] = deployments(driving.cluster.settings, [service])
    return of


@pytest.fixture(scope="module")
def given(driving: Driving) -> Sequence[Given]:
    """Answers of several moments, asked while streams fold, of users with records in all topics."""
    found: list[Given] = []
    for number in range(ROUNDS):
        driving.feed(islice(driving.events, EVENTS))
        now = now_ms()
        for user in range(USERS):
            key, value = event(user, user % 7, 1, 1, now)
            driving.out.produce(LISTENING_EVENTS, value, key)
            viewing = b"Closed" if (user + number) % 3 else b"Open"
            driving.out.produce(OPEN, viewing, str(user).encode(), timestamp=now)
        driving.out.flush()
        found += [ask(driving, name, str(user), now) for user in range(USERS) for name in VIEWS]
        # A tick is folded after earlier states: the order of a replay is the order of time.
        driving.settle()
        for user in range(USERS):
            driving.out.produce(TICK, b"", str(user).encode(), timestamp=now_ms())
        driving.out.flush()
        found += [ask(driving, name, str(user), now) for user in range(USERS) for name in VIEWS]
        driving.settle()
    return [each for each in found if each.position]


def test_the_answers_of_then_are_replayed_byte_for_byte(driving: Driving, given: Sequence[Given]) -> None:
    different, compared = [], 0
    for name, (service, view_name) in VIEWS.items():
        of = deployed(driving, service)
        view = named_view(of, view_name)
        logs = Logs(of.app, view, of.settings)
        by_partition: defaultdict[int, list[Given]] = defaultdict(list)
        for each in (each for each in given if each.app == name):
            [partition] = view.ask(each.key).partitions(logs.counts)
            by_partition[partition].append(each)
        for partition, asked in by_partition.items():
            with logs.past([partition]) as past:
                for each in sorted(asked, key=lambda each: sum(offsets_of(each.position).values())):
                    past.advance_to(offsets_of(each.position))
                    query = parameters(view.query, {"at": str(each.at)}) if name == "habits" and view.query else None
                    now = encoded(past.answer(view.ask(each.key, query)))
                    compared += 1
                    different += [(each, now)] if now != each.body else []
    assert different == []
    assert compared > 2 * ROUNDS * USERS


def run(driving: Driving, *arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments, env=driving.environment(JARS="nowhere"))
    assert result.exit_code == 0, result.output
    return result


def test_the_command_prints_the_body_at_a_position_and_as_of_a_time(driving: Driving, given: Sequence[Given]) -> None:
    metrics, habits, last = (next(e for e in given if e.app == name and e.body != b"null") for name in (*VIEWS,))
    assert run(driving, "replay", "metrics", "metrics", metrics.key, "--position", metrics.position).stdout_bytes == (
        metrics.body + b"\n"
    )
    query = ("--query", f"at={habits.at}")
    printed = run(driving, "replay", "profile", "habits", habits.key, "--position", habits.position, *query)
    assert printed.stdout_bytes == habits.body + b"\n"
    present = ask(driving, "notifications", last.key, 0)
    [as_json] = json.loads(
        run(driving, "replay", *VIEWS["notifications"], last.key, "--at", "2100-01-01", "--json").stdout
    )
    assert as_json["answer"] == json.loads(present.body)
    assert offsets_of(as_json["position"]) == offsets_of(present.position)


@pytest.fixture(scope="module")
def deleted(driving: Driving, given: Sequence[Given]) -> str:
    """A user who was deleted from all services."""
    assert given
    key, value = event(DELETED, 1, 1, 1, 1)
    driving.out.produce(LISTENING_EVENTS, value, key)
    driving.out.flush()
    driving.settle()
    assert ask(driving, "metrics", str(DELETED), 0).body != b"null"
    asked = urllib3.request("DELETE", f"{driving.cluster.url}/v1/users/{DELETED}", timeout=REQUEST_S, retries=False)
    assert asked.status == 202, asked.data
    place = asked.headers["Location"]
    until(lambda: driving.get(place).json().get("done", False), "the services to forget the user")
    return str(DELETED)


def test_a_training_set_has_the_answers_of_each_row(
    driving: Driving, given: Sequence[Given], deleted: str, tmp_path: Path
) -> None:
    of = deployed(driving, "metrics")
    view = named_view(of, "metrics")
    some = islice((each for each in given if each.app == "metrics"), 0, None, 3)
    rows = [(each.key, each.at + offset) for each in some for offset in (-1, 0)]
    rows.append((deleted, now_ms()))
    (tmp_path / "rows.csv").write_text("key,time\n" + "".join(f"{key},{at}\n" for key, at in rows))
    to = str(tmp_path / "set")
    made = json.loads(
        run(driving, "replay", "metrics", "metrics", "--rows", str(tmp_path / "rows.csv"), "--to", to, "--json").stdout
    )
    table = pq.read_table(to)
    assert made["rows"] == len(rows) == table.num_rows
    assert sorted(zip(table["key"].to_pylist(), table["time"].cast(pa.int64()).to_pylist(), strict=True)) == sorted(
        rows
    )
    columns, logs = Columns(type(view.example)), Logs(of.app, view, of.settings)
    for row in table.to_pylist()[::13]:
        key, moment = row.pop("key"), round(row.pop("time").timestamp() * 1_000)
        [partition] = view.ask(key).partitions(logs.counts)
        with logs.past([partition]) as past:
            past.advance_until(moment)
            expected = [column[0].as_py() for column in columns.arrays([past.answer(view.ask(key))])]
        assert [*row.values()] == expected
    [none] = [row for row in table.to_pylist() if row["key"] == deleted]
    assert {name for name, value in none.items() if value is not None} == {"key", "time"}


def unloaded(driving: Driving, service: str, view: str, to: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The manifest, and the rows by key."""
    [made] = json.loads(run(driving, "unload", service, view, "--to", str(to), "--json").stdout)
    assert made == json.loads((Path(made["folder"]) / MANIFEST).read_text())
    table = pq.read_table(made["folder"], partitioning=None)
    assert table.num_rows == made["rows"]
    return made, {row.pop("key"): row for row in table.to_pylist()}


def test_unloaded_answers_equal_a_replay_at_their_offsets_while_the_state_moves(
    driving: Driving, deleted: str, tmp_path: Path
) -> None:
    driving.feed(islice(driving.events, 4 * EVENTS))
    made, rows = unloaded(driving, "metrics", "metrics", tmp_path)
    driving.settle()
    of = deployed(driving, "metrics")
    view = named_view(of, "metrics")
    logs, columns = Logs(of.app, view, of.settings), Columns(type(view.example))
    for partition, position in made["positions"].items():
        file = pq.ParquetFile(Path(made["folder"]) / f"{int(partition):05}.parquet")
        assert (file.schema_arrow.metadata or {})[POSITION].decode() == position
        with logs.past([int(partition)]) as past:
            past.advance_to(offsets_of(position))
            for row in file.read().to_pylist():
                answer = past.answer(view.ask(row.pop("key")))
                assert [*row.values()] == [column[0].as_py() for column in columns.arrays([answer])]
    assert deleted not in rows
    assert run(driving, "replay", "metrics", "metrics", deleted, "--at", "2100-01-01").stdout == "null\n"
