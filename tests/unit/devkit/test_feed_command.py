"""The pace of `streamstate feed`."""

from itertools import islice, repeat
from types import SimpleNamespace

import pytest

from devkit.feed_command import paced

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
