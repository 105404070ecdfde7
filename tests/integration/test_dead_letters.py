"""Records that cannot be used: kept with where and why, while their neighbours are counted."""

import json
from hashlib import sha256
from typing import Any

from services.events import LISTENING_EVENTS
from streamstate.keys import LONG, partition_of
from tests.integration.driving import Driving, headers
from tests.integration.terminal import run_python

USER = 800_001
KEY = LONG.encode(USER)


def event(**changed: Any) -> bytes:
    return json.dumps(
        {"userId": USER, "artistId": 1, "albumId": 2, "trackId": 3, "timestamp": 1_000} | changed
    ).encode()


# `tests/unit/streamstate/test_processing.py` has all kinds.
BROKEN: list[tuple[bytes | None, bytes | None]] = [
    (KEY, None), (KEY, b"[" * 10_000), (KEY, event(trackId="3")), (None, event()), (KEY[4:], event()),
    (LONG.encode(USER + 1), event()), (KEY, event(timestamp=4_102_444_800_000)),
]  # fmt: skip
GOOD = [event(), event(trackId=2**63 - 1), event(artistId=0, more=[1, {"x": None}]), event(timestamp=2**40)]


def test_broken_records_are_kept_and_their_neighbours_counted(driving: Driving) -> None:
    partition = partition_of(KEY, 8)
    for index, (key, value) in enumerate(BROKEN):
        driving.out.produce(LISTENING_EVENTS, value, key, partition, headers=[("trace", str(index).encode())])
        driving.out.produce(LISTENING_EVENTS, GOOD[index % len(GOOD)], KEY, partition)
    driving.out.flush()
    driving.settle()

    assert driving.get(f"/v1/users/{USER}").json()["eventCount"] == len(BROKEN)
    assert driving.get(f"/v1/users/{USER + 1}").status == 404
    sources = {(m.partition(), m.offset()): m for m in driving.read(LISTENING_EVENTS)}
    for service in ("metrics", "names"):
        letters = {m.key(): m for m in driving.read(f"{service}-dlq") if b"trace" in {h.encode() for h in headers(m)}}
        assert len(letters) == len(BROKEN)
        for letter in letters.values():
            found = headers(letter)
            index = int(found["trace"])
            key, value = BROKEN[index]
            assert letter.value() == value
            assert found.get("x-key") == key
            assert found["x-service"].decode() == service
            assert found["__streams.errors.message"]
            place = int(found["__streams.errors.partition"]), int(found["__streams.errors.offset"])
            assert letter.key() == f"{LISTENING_EVENTS}:{place[0]}:{place[1]}".encode()
            assert headers(sources[place])["trace"] == found["trace"]


def test_a_broken_record_as_large_as_its_topic_takes_is_kept_or_what_tells_it_apart(driving: Driving) -> None:
    values = [driving.draw.randbytes(size) for size in (999_900, 1_048_400)]
    for value in values:
        driving.out.produce(LISTENING_EVENTS, value, KEY, headers=[("large", str(len(value)).encode())])
        driving.out.produce(LISTENING_EVENTS, event(), KEY)
    driving.out.flush()
    driving.settle()
    for service in ("metrics", "names"):
        letters = driving.read(f"{service}-dlq")
        assert values[0] in [letter.value() for letter in letters]
        (short,) = {m.key(): m for m in letters if "x-value-bytes" in headers(m)}.values()
        assert short.value() == values[1][:1_024]
        found = headers(short)
        assert found["x-value-bytes"] == b"1048400"
        assert found["x-value-sha256"].decode() == sha256(values[1]).hexdigest()
        assert found["x-service"].decode() == service


def test_the_play_of_the_year_2100_in_the_documents(driving: Driving) -> None:
    run_python("docs/using.md", driving.cluster.kafka.bootstrap)
    driving.settle()
    for service in ("metrics", "names"):
        late = [
            headers(letter) for letter in driving.read(f"{service}-dlq") if b"4102444800000" in (letter.value() or b"")
        ]
        assert late
        assert all(b"OutOfBounds" in of["__streams.errors.exception"] for of in late)
    assert not driving.get("/v1/users/1/metrics").json()["lastListeningEvent"].startswith("2100")
