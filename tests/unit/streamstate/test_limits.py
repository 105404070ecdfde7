"""The limits of a stream: failures before a stop, and accepted timestamps."""

import pytest

from streamstate.app import App, Fold, Source
from streamstate.errors import TooManyDeadLetters
from streamstate.keys import TEXT
from streamstate.processing.decode import DeadLetter, RawRecord, Refusal
from streamstate.processing.limits import CommitLimit, DeadLetterLimit, Limits, TimestampLimit
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver

BAD = b"\xff"
APP = App("app", (Fold((Source("in", TEXT, lambda _key, value: (value or b"").decode()),), lambda _records, _: ()),))


def raw(start: int, good: int, bad: int) -> dict[str, list[RawRecord]]:
    values = [b"good"] * good + [BAD] * bad
    return {"in": [(offset, offset, b"key", value) for offset, value in enumerate(values, start)]}


def driver(most: int, share: float, commit_records: int = 10) -> Driver:
    limits = Limits(ready=CommitLimit(commit_records), dead_letters=DeadLetterLimit(most, share))
    return Driver(APP, MemoryStore(), limits=limits)


def position(driven: Driver) -> int:
    return driven.store.read({0: []})[0].positions.get("in", 0)


def test_a_batch_of_too_many_dead_letters_is_refused_as_a_whole() -> None:
    driven = driver(5, 0.1)
    driven.feed(0, raw(0, 40, 4))
    with pytest.raises(TooManyDeadLetters, match=r"6 of the last 59 records .* _DEAD_LETTER_SHARE to accept"):
        driven.feed(0, raw(44, 13, 2))
    assert (position(driven), len(driven.dead)) == (44, 4)


@pytest.mark.parametrize(("most", "share"), [(6, 0.1), (5, 0.11), (0, 1.0)])
def test_few_or_a_small_share_are_accepted(most: int, share: float) -> None:
    driven = driver(most, share)
    driven.feed(0, raw(0, 40, 4))
    driven.feed(0, raw(44, 14, 2))
    assert (position(driven), len(driven.dead)) == (60, 6)


def test_a_fold_that_fails_is_stopped_too() -> None:
    app = App("app", (Fold((Source("in", TEXT, lambda _key, _value: 0),), lambda records, _: [1 // records[0].value]),))
    driven = Driver(app, MemoryStore(), limits=Limits(dead_letters=DeadLetterLimit(3, 0.1)))
    with pytest.raises(TooManyDeadLetters):
        driven.feed(0, raw(0, 100, 0))
    assert (position(driven), len(driven.dead)) == (3, 3)


def test_only_the_last_records_count() -> None:
    limit = DeadLetterLimit(100, 0.1)
    for _ in range(50):
        limit.add(1_000, 20)
    letters = [(3, DeadLetter("in", n, 0, 0, None, None, "decode", ValueError())) for n in range(880)]
    limit.require(1_000, letters)
    limit.add(1_000, 800)
    first = r"decode: ValueError at in:3:0, decode: ValueError at in:3:1, decode: ValueError at in:3:2"
    with pytest.raises(TooManyDeadLetters, match=rf"1101 of the last 11000 records are dead letters \({first}\)"):
        limit.require(1_000, letters[:121])


def test_a_record_ahead_of_the_clock_is_refused_where_kafka_takes_any_timestamp() -> None:
    refused = {7: Refusal("timestamp", "why")}
    limit = TimestampLimit({"any": 1_000}, {("bounded", 3): refused})
    assert limit.admission(("any", 0), 5_000).latest == 6_000
    bounded = limit.admission(("bounded", 3), 5_000)
    assert bounded.latest > 10**18
    assert bounded.refused == refused
