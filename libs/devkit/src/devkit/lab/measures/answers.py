"""Answers apart from the API: replayed at their positions, as a training set, and unloaded for all keys."""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import urllib3

from devkit.cluster.local_cluster import answers, variables
from devkit.demo import say
from devkit.lab import cpu
from devkit.lab.archived import LEAST_EVENTS, LONGEST_S, HistoryLab
from devkit.lab.load import Reads, Request, asking
from devkit.lab.targets import Target
from services.metrics.model import APP, VIEW
from streamstate.history.answers.logs import Logs
from streamstate.state.store import offsets_of
from streamstate.view import encoded
from streamstate.web.http.request import POSITION

ASKED = 10_000
TRAINING_S = 300
"""The most seconds of a training set of a million rows over two million plays."""

_FULL = 2_000_000
_LOOK_S = 0.2
_MANY = 500
_READS_PER_S, _CALM_S = 100.0, 15.0


class Given(NamedTuple):
    """An answer of the API."""

    key: str
    position: str
    body: bytes


def measure(lab: HistoryLab) -> Iterator[Target]:
    """The rows about answers. Needs a state of all plays, and appends plays."""
    [api] = lab.cluster.apis
    with lab.building(lab.events) as stream, api:
        api.wait_until(lambda: answers(f"http://{_address(lab)}/readyz"), LONGEST_S)
        say("asking the API under load")
        users = lab.data.users()
        with lab.data.steady(lab.cluster.kafka.bootstrap):
            given = _given(lab, users[: min(ASKED, lab.events // 20)])
        stream.wait_until(lab.states.caught_up, LONGEST_S)
        say("unloading the answers for all keys")
        yield from _unloaded(lab, users)
    yield Target(f"replay of {len(given):,} answers at their positions: different bodies", _differing(lab, given), 0)
    yield _trained(lab)


def _address(lab: HistoryLab) -> str:
    return lab.cluster.addresses[APP.name][0]


def _given(lab: HistoryLab, users: Sequence[int]) -> list[Given]:
    pool, found = urllib3.PoolManager(), []
    for user in map(str, users):
        path = VIEW.path.replace("<key>", user)
        answer = pool.request("GET", f"http://{_address(lab)}{path}", timeout=10)
        if answer.status == 200:
            found.append(Given(user, answer.headers[POSITION], answer.data))
    return found


def _differing(lab: HistoryLab, given: Sequence[Given]) -> int:
    """The number of answers with another body in a replay."""
    say(f"replaying {len(given):,} answers")
    logs = Logs(APP, VIEW, lab.settings)
    by_partition: defaultdict[int, list[Given]] = defaultdict(list)
    for each in given:
        [(_, partition)] = offsets_of(each.position)
        by_partition[partition].append(each)
    different = 0
    for partition, asked in by_partition.items():
        with logs.past([partition]) as past:
            for each in sorted(asked, key=lambda each: [*offsets_of(each.position).values()]):
                past.advance_to(offsets_of(each.position))
                different += encoded(past.answer(VIEW.ask(each.key))) != each.body
    return different


def _trained(lab: HistoryLab) -> Target:
    """A training set of every second play: the answer about its user at its time."""
    keys, times = [], []
    for place, end in lab.ends.items():
        with lab.history.log(place) as log:
            for message in list(log.up_to(end))[::2]:
                keys.append(int.from_bytes(message.key() or b"", "big"))
                times.append(message.timestamp()[1])
    rows, folder = lab.archive.parent / "rows.parquet", lab.archive.parent / "training"
    pq.write_table(pa.table({"key": keys, "time": times}), rows)
    say(f"writing a training set of {len(keys):,} rows")
    seconds, memory = _command(lab, "replay", APP.name, VIEW.name, "--rows", str(rows), "--to", str(folder))
    name = f"training set of {len(keys):,} rows, {memory / 1e6:,.0f} MB at most: seconds"
    return Target(name, seconds, TRAINING_S * max(1.0, lab.events / _FULL))


def _unloaded(lab: HistoryLab, users: Sequence[int]) -> Iterator[Target]:
    folder = lab.archive.parent / "unloaded"
    reads = Reads()
    with asking(f"http://{_address(lab)}", partial(_request, users), reads, _READS_PER_S, readers=1):
        time.sleep(_CALM_S if lab.events >= LEAST_EVENTS else 0)
        before = reads.take()
        seconds, memory = _command(lab, "unload", APP.name, VIEW.name, "--to", str(folder))
    if lab.events >= LEAST_EVENTS:
        what = f"unloading: p99 of reads, {reads.ms(99):.1f} ms, over before"
        yield Target(what, reads.ms(99) / before.ms(99), 1.1, unit="x")
    [made] = (folder / VIEW.name).iterdir()
    rows = pq.read_table(made, partitioning=None).to_pylist()
    missing = {*map(str, lab.data.rows[:, 0].tolist())} - {row["key"] for row in rows}
    different = sum(_different(lab, rows[n : n + _MANY]) for n in range(0, len(rows), _MANY))
    name = f"unloading of {len(rows):,} keys in {seconds:.0f} s, {memory / 1e6:,.0f} MB at most"
    yield Target(f"{name}: missing keys, and rows that differ from GET", len(missing) + different, 0)


def _request(users: Sequence[int], number: int) -> Request:
    user = users[number % len(users)]
    return Request(user, VIEW.path.replace("<key>", str(user)), lambda _answer: ("", ""))


def _different(lab: HistoryLab, rows: Sequence[dict[str, Any]]) -> int:
    """The number of rows that differ from the API's answers. A column is null where the answer has no such member."""
    asked = {VIEW.name: [row["key"] for row in rows]}
    url = f"http://{_address(lab)}/v1/many"
    found = urllib3.request("POST", url, body=json.dumps(asked), timeout=30).json()[VIEW.name]
    return sum(dict.fromkeys(row) | found[row["key"]] | {"key": row["key"]} != row for row in rows)


def _command(lab: HistoryLab, *arguments: str) -> tuple[float, int]:
    """Run `streamstate`; seconds, and peak memory of its processes in bytes."""
    settings = lab.cluster.variables | {"ARCHIVE": str(lab.archive)}
    started, memory = time.monotonic(), 0
    argv = [sys.executable, "-m", "streamstate.cli.main", *arguments]
    with subprocess.Popen(argv, env={**os.environ, **variables(settings)}) as running:
        while running.poll() is None:
            time.sleep(_LOOK_S)
            try:
                memory = max(memory, cpu.resident(running.pid))
            except psutil.Error:
                break
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, argv)
    return time.monotonic() - started, memory
