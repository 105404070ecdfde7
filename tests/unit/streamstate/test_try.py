"""`streamstate try`: answers from a file, in memory, and the same by the API."""

import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import urllib3
from pyarrow import parquet
from typer.testing import CliRunner, Result

from devkit.servers.child_process import free_port
from streamstate.cli.main import app
from streamstate.cli.trial import sample
from streamstate.cli.trial.members import event_time
from streamstate.cli.trial.rows import batches
from streamstate.errors import BadRecord
from tests.waiting import REQUEST_S, until_equal

NOW = 1_700_000_000_000
PLAYS = [{"userId": n % 3, "artistId": n % 2, "timestamp": NOW + n} for n in range(30)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["try", *arguments])


def answered(*arguments: str) -> Any:
    result = tried(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write(folder: Path, *lines: object) -> str:
    """The name of a file of these events, or texts, beside the sample's profile."""
    sample.written()
    path = folder / "own.ndjson"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


@pytest.mark.usefixtures("folder")
def test_without_arguments_a_sample_is_written_and_answered() -> None:
    result = tried()
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("10,000 events, 2 refused; key: userId (or --key-field), time: timestamp (or")
    plays = [json.loads(line) for line in Path(sample.EVENTS).read_text().splitlines()]
    right = [play for play in plays if isinstance(play["artistId"], int)]
    [(busiest, number)] = Counter(play["userId"] for play in right).most_common(1)
    artists = Counter(play["artistId"] for play in right if play["userId"] == busiest and _recent(play, plays[-1]))
    answer = answered()["answers"][str(busiest)]
    assert answer["plays"]["ever"] == number
    assert {top["value"]: top["count"] for top in answer["artists"]} == dict(artists.most_common(3))


def test_the_sample_is_the_profile_of_the_first_page(folder: Path, request: pytest.FixtureRequest) -> None:
    sample.written()
    profile = (folder / sample.PROFILE).read_text()
    assert profile.count("\n") == 8
    assert f"```yaml\n{profile}```" in (request.config.rootpath / "README.md").read_text()


def _recent(play: dict[str, int], last: dict[str, int]) -> bool:
    return play["timestamp"] >= last["timestamp"] - 30 * 86_400_000


def test_the_sample_is_a_profile_of_the_demo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.written()
    profile = folder / sample.PROFILE
    monkeypatch.undo()
    result = CliRunner().invoke(app, ["profile", "check", str(profile), "--no-kafka"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_answers_as_json_lines_do(folder: Path, kind: str) -> None:
    expected = answered("evenings.yaml", write(folder, *PLAYS))
    path = folder / f"plays.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            written = csv.DictWriter(file, PLAYS[0])
            written.writeheader()
            written.writerows(PLAYS)
    else:
        table = pyarrow.Table.from_pylist(PLAYS)
        times = table["timestamp"].cast(pyarrow.timestamp("ms"))
        parquet.write_table(table.set_column(2, "timestamp", times), path)
    assert answered("evenings.yaml", str(path)) == expected
    assert expected["answers"]["1"]["plays"] == {"1h": 10, "7d": 10, "ever": 10}


def test_refused_rows_are_told_with_reason_and_line(folder: Path) -> None:
    wrong = [
        "{",
        {"artistId": 1, "timestamp": NOW},
        {"userId": "anna", "timestamp": NOW},
        {"userId": 1, "timestamp": "soon"},
        {"userId": 1, "artistId": "x", "timestamp": NOW},
        {"userId": 1, "timestamp": 4_000_000_000_000},
    ]
    answer = answered("evenings.yaml", write(folder, PLAYS[1], "", *wrong))
    assert answer["rows"] == 7
    reasons = {tuple(lines): reason for reason, lines in answer["refused"].items()}
    assert sorted(reasons) == [(3,), (4,), (5,), (6,), (7,), (8,)]
    assert reasons[(4,)] == "userId is missing or null"
    assert reasons[(8,)] == "the timestamp is in the future, or before 1970"
    assert answer["answers"]["1"]["plays"]["ever"] == 1


def test_a_key_and_a_moment_are_answered(folder: Path) -> None:
    events = write(folder, *PLAYS)
    answer = answered("evenings.yaml", events, "--key", "2", "--at", str(NOW + 5))
    assert answer["answers"]["2"]["plays"] == {"1h": 2, "7d": 2, "ever": 10}
    unknown = tried("evenings.yaml", events, "--key", "77")
    assert (unknown.exit_code, "no event has the key 77; the keys with most events are" in unknown.stderr) == (1, True)


def test_members_are_named_where_none_looks_like_a_key(folder: Path) -> None:
    events = write(folder, *({"who": play["userId"], "when": play["timestamp"] // 1_000} for play in PLAYS))
    result = tried("evenings.yaml", events)
    assert result.exit_code == 3
    there = "by --key-field; there are who, when\n"
    assert result.stderr == f"streamstate: no member of the events looks like the key: name the key {there}"
    named = answered("evenings.yaml", events, "--key-field", "who", "--time-field", "when")
    assert named["answers"]["1"]["windows"]["1h"]["to"] == NOW
    missing = tried("evenings.yaml", events, "--key-field", "whom")
    assert missing.stderr == f"streamstate: no member of the events is called whom: name the key {there}"


def test_the_key_of_a_profile_with_keys_from_the_value_is_its_member(folder: Path) -> None:
    text = Path(write(folder, *PLAYS)).with_name("evenings.yaml").read_text()
    by_artist = text.replace("key: long", "key: value.artistId").replace("users/<key>", "artists/<key>")
    (folder / "by.yaml").write_text(by_artist)
    answer = answered("by.yaml", "own.ndjson")
    assert (answer["key"], answer["answers"]["1"]["plays"]["ever"]) == ("artistId", 15)


@pytest.mark.parametrize(
    "value", [NOW // 1_000, NOW, NOW * 1_000, NOW * 1_000_000, str(NOW), "2023-11-14T22:13:20Z", NOW / 1_000]
)
def test_a_time_is_read_in_any_unit(value: Any) -> None:
    assert event_time(value, "") == NOW
    with pytest.raises(BadRecord, match="no time"):
        event_time("soon", "")


def test_a_growing_file_is_read_on_by_whole_lines(folder: Path) -> None:
    events = Path(write(folder, PLAYS[0]))
    reading = batches(events, {}, growing=True)
    assert [line for line, _ in next(reading)] == [1]
    assert next(reading) == []
    with events.open("a") as file:
        for text, lines in (('{"userId"', []), (": 7}\n{}\n", [2, 3])):
            file.write(text)
            file.flush()
            assert [line for line, _ in next(reading)] == lines


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[None]:
    """The command in a process without PySpark, Arrow, and a Kafka or Redis that answers."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'pandas')));"
        f"sys.argv = ['streamstate', 'try', *{arguments!r}]; from streamstate.cli.main import main; main()"
    )
    environment = {"PATH": "", "STREAMSTATE_KAFKA": "127.0.0.1:1", "STREAMSTATE_REDIS": "redis://127.0.0.1:1/0"}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=cwd, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("in_clone", [True, False])
def test_a_growing_file_is_served_as_by_a_service(folder: Path, in_clone: bool, request: Any) -> None:
    events, port = write(folder, *PLAYS), free_port()
    cwd = request.config.rootpath if in_clone else folder

    def plays() -> Any:
        with suppress(urllib3.exceptions.HTTPError):
            body = urllib3.request(
                "GET", f"{address}/v1/users/1/evenings?at={NOW}", retries=False, timeout=REQUEST_S
            ).json()
            return body.get("plays", {}).get("ever")

    address = f"http://127.0.0.1:{port}"
    profile = str(folder / sample.PROFILE)
    with running(profile, events, "--follow", "--listen", str(port), cwd=cwd):
        until_equal(plays, 10)
        with Path(events).open("a") as file:
            file.write(json.dumps(PLAYS[1]) + "\n")
        until_equal(plays, 11)
        page = urllib3.request("GET", f"{address}/", timeout=REQUEST_S)
        assert (b"<title>User profiles</title>" in page.data) == in_clone
