"""Where events come from: the invented catalogue, files of the LFM-1b format, and the pace of streamstate feed."""

import itertools
import json
import re
import struct
from collections import defaultdict
from itertools import islice, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devkit import DevkitError
from devkit.events import feed as feeding
from devkit.events import sample_events
from devkit.events.feed import Feed
from devkit.events.formats import registered
from devkit.events.lfm import Files
from devkit.events.records import Event
from devkit.events.sample_events import Catalogue
from devkit.feed_command import paced
from devkit.lab.wrk import parse
from services.events import KINDS, LISTENING_EVENTS
from services.notifications.model import OPEN
from streamstate.errors import RegistryUnavailable
from streamstate.formats.registered.registry import Registry
from streamstate.formats.writing import FormatEncoder
from streamstate.keys import TEXT

# The invented catalogue and its listeners.

NOW = 1_700_000_000_000
IDS = {"userId", "artistId", "albumId", "trackId", "timestamp"}
DETAILS = {"device", "genre", "durationMs"}


def take(count: int, seed: int = 1, users: int = 50) -> list[Event]:
    return list(itertools.islice(sample_events.events(CATALOGUE, seed, users, lambda: NOW), count))


CATALOGUE = Catalogue.make(1, artists=40)
EVENTS = take(60_000)


def parsed(event: Event) -> dict[str, Any] | None:
    """The event when it is usable, written apart from the code under test."""
    key, value = event
    try:
        fields = json.loads(value or b"")
    except ValueError:
        return None
    whole = fields.keys() == IDS | DETAILS and all(type(fields[v]) is int and 0 <= fields[v] < 2**63 for v in IDS)
    return fields if whole and struct.pack(">q", fields["userId"]) == key else None


def test_a_seed_gives_the_same_catalogue_and_events_again() -> None:
    assert Catalogue.make(1, artists=40) == CATALOGUE
    assert take(5_000) == EVENTS[:5_000]


def test_each_kind_of_broken_event_occurs() -> None:
    broken = [event for event in EVENTS if not parsed(event)]
    values = [value for _, value in broken if value is not None]
    documents = [json.loads(value) for value in values if value.endswith(b"}")]
    assert len(values) < len(broken)
    assert len(documents) < len(values)
    assert any("albumId" not in document for document in documents)
    assert any(document["artistId"] == "unknown" for document in documents)
    assert any(document["trackId"] >= 2**63 for document in documents)
    keys = {struct.pack(">q", document["userId"]) for document in documents}
    assert any(key not in keys for key, _ in broken)


# Reading files in the LFM-1b format.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "LEs-a": "7\t1\t2\t3\t1331060664\n9\t1\t2\t4\t1331060600\n",
        "LEs-b": "8\t1\t2\t3\t1331060700",
        "artists": '1\tSigur "Rós\n',
        "albums": "2\tA\u2028B \r C'\t1\n",
        "tracks": '3\t"\t1\r\n4\t\t1\n',
    }
    for kind, text in files.items():
        (tmp_path / f"LFM-1b_{kind}-x.txt").write_bytes(text.encode())
    return tmp_path


def test_events_of_all_files_come_in_file_order_with_ms(folder: Path) -> None:
    events = list(Files(folder).events())
    ids = {"userId": 7, "artistId": 1, "albumId": 2, "trackId": 3, "timestamp": 1331060664000}
    play = parsed(events[0])
    assert play is not None
    assert {name: play[name] for name in IDS} == ids
    assert [struct.unpack(">q", key)[0] for key, _ in events] == [7, 9, 8]


def test_names_keep_quotes_and_odd_characters(folder: Path) -> None:
    names = [(topic, key, json.loads(value)) for topic, key, value in Files(folder).names()]
    assert names == [
        ("artists", struct.pack(">q", 1), {"id": 1, "name": 'Sigur "Rós'}),
        ("albums", struct.pack(">q", 2), {"id": 2, "name": "A\u2028B \r C'"}),
        ("tracks", struct.pack(">q", 3), {"id": 3, "name": '"'}),
        ("tracks", struct.pack(">q", 4), {"id": 4, "name": ""}),
    ]


@pytest.mark.parametrize(
    "line", [b"7\t1\t2\t3", b"7\t1\t2\tx\t5", b"7\t1\t2\t\t5", b"", b"9223372036854775808\t1\t2\t3\t4"]
)
def test_a_malformed_event_is_named_by_file_and_line(folder: Path, line: bytes) -> None:
    file = folder / "LFM-1b_LEs-a-x.txt"
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(DevkitError, match=r"LFM-1b_LEs-a-x\.txt, line 3: .*correct the line"):
        Files(folder).check()
    skipping = Files(folder, skip_malformed=True)
    skipping.check()
    assert len(list(skipping.events())) == 3
    assert re.search(r"skipped 1 malformed lines, the first is .*LFM-1b_LEs-a-x\.txt, line 3: ", skipping.skipped)


def test_a_feed_goes_on_after_a_correction(folder: Path, tmp_path: Path) -> None:
    file, marker = folder / "LFM-1b_LEs-a-x.txt", tmp_path / "fed"
    file.write_bytes(file.read_bytes() + b"7\t1\n")
    with pytest.raises(DevkitError, match="nothing was sent: correct the line"):
        Feed("127.0.0.1:1", marker, Files(folder)).load(print)
    assert not marker.exists()


@pytest.mark.parametrize("line", [b"1", b"x\tname", b"1\t\xff", b"1\tname\t2"])
def test_a_malformed_name_is_named_by_file_and_line(folder: Path, line: bytes) -> None:
    (folder / "LFM-1b_artists-x.txt").write_bytes(line)
    with pytest.raises(DevkitError, match=r"LFM-1b_artists-x\.txt, line 1: "):
        list(Files(folder).names())


@pytest.mark.parametrize("kind", ["artists", "albums", "tracks"])
def test_a_missing_file_is_named(folder: Path, kind: str) -> None:
    (folder / f"LFM-1b_{kind}-x.txt").unlink()
    with pytest.raises(DevkitError, match=rf"no file LFM-1b_{kind}\*\.txt in "):
        list(Files(folder).names())


# The plays of the demo from before its start.


class Kept:
    """A producer that keeps the records, by topic: timestamp and value."""

    def __init__(self) -> None:
        self.records: defaultdict[str, list[tuple[int, bytes | None]]] = defaultdict(list)

    def produce(self, topic: str, value: bytes | None, *_: object, timestamp: int, **__: object) -> None:
        self.records[topic].append((timestamp, value))

    def poll(self, _seconds: float) -> None:
        """Nothing waits."""

    def __len__(self) -> int:
        """All is acknowledged."""
        return 0


def test_the_demo_spreads_its_first_plays_over_weeks_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept()
    monkeypatch.setattr(feeding, "producer", lambda _bootstrap: kept)
    feed = Feed("", tmp_path / "fed")
    feed.load(print)
    end = feeding.now_ms()
    plays = kept.records[LISTENING_EVENTS]
    times = [time for time, _ in plays]
    assert (len(times), times) == (feeding.BACKLOG, sorted(times))
    for days in (1, 7, 30):
        share = sum(time > end - days * 86_400_000 for time in times) / len(times)
        assert share == pytest.approx(days / 45, rel=0.01)
    assert end - 300_000 < times[-1] <= end
    played = [(time, json.loads(value)["timestamp"]) for time, value in plays[:100] if value]
    assert all(0 <= time - moment <= sample_events.LATE_MS for time, moment in played)
    assert all(time <= times[0] for kind in KINDS for time, _ in kept.records[kind])
    assert {time for time, _ in kept.records[OPEN]} == {0}
    next(feed.live())
    assert {time for time, _ in plays[feeding.BACKLOG :]} == {0}


# The pace of `streamstate feed`.

EVENT = (b"key", b"value")


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses; the clock moves by them, and by 0.01 s for each batch."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds + 0.01)

    monkeypatch.setattr("devkit.feed_command.time", SimpleNamespace(sleep=sleep, monotonic=lambda: sum(pauses)))
    return pauses


@pytest.mark.parametrize(("rate", "count"), [(1, 5), (7, 70), (200, 1_000), (50_000, 100_000)])
def test_events_come_at_the_rate(slept: list[float], rate: int, count: int) -> None:
    batches = list(paced(islice(repeat(EVENT), count), rate))
    assert sum(map(len, batches)) == count
    assert sum(slept) == pytest.approx(count / rate, abs=0.02)


def test_without_a_rate_nobody_waits(slept: list[float]) -> None:
    assert sum(map(len, paced(islice(repeat(EVENT), 25_000), 0))) == 25_000
    assert slept == []


# What wrk prints.

OUTPUT = """Running 8s test @ http://127.0.0.1:8080/
Requests/sec:    500.25
{"requests": 4002, "seconds": 8.0, "p50_ms": 1.5, "p99_ms": 9.0, "bad": 3, "lost": 1, "refused": 0}
"""


def test_answers_that_are_not_200_and_those_that_never_came_are_failures_and_refusals_are_not() -> None:
    answers = parse(OUTPUT.replace('"refused": 0', '"refused": 2'), "")
    assert (parse(OUTPUT, "").failures, answers.refused, answers.failures) == (4, 2, 2)


@pytest.mark.parametrize("output", ["", "Running 8s test\nunable to connect", OUTPUT.replace("4002", "0")])
def test_a_server_that_does_not_answer_is_an_error(output: str) -> None:
    with pytest.raises(DevkitError, match=r"refused|no answer at all"):
        parse(output, "Connection refused")


def test_a_registry_that_is_slow_at_its_start_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[int | Exception] = [RegistryUnavailable("timed out"), 7]

    def register(_registry: Registry, _subject: str, _schema: object) -> int:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    monkeypatch.setattr(Registry, "register", register)
    monkeypatch.setattr("devkit.events.formats.AWAY_S", 0)
    encoder = FormatEncoder((TEXT, TEXT), str, "avro", {}, Registry("http://127.0.0.1:1"))
    assert registered(encoder, "lines").number == 7
    assert answers == []
