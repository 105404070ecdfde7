"""What watchers hear, held against commits and reads."""

import math

import pytest

from devkit.bench import report
from devkit.bench.figures import Figures
from devkit.bench.targets import targets
from devkit.bench.watchers.commits import behind
from devkit.bench.watchers.figures import Watching
from devkit.bench.watchers.measure import same

COMMITS = [(1.0, 10), (2.0, 20), (3.0, 30)]


@pytest.mark.parametrize(
    ("offset", "heard", "seconds"),
    [
        (9, [(1.5, 10)], 0.5),
        (10, [(1.5, 10), (2.25, 20)], 0.25),
        (10, [(1.5, 10), (3.25, 30)], 1.25),
        (10, [(1.5, 10), (2.5, 9), (2.75, 20)], 0.75),
        (10, [(1.99, 20)], 0),
        (10, [(1.5, 10)], math.inf),
        (10, [], math.inf),
    ],
)
def test_an_event_is_heard_with_the_first_later_state(
    offset: int, heard: list[tuple[float, int]], seconds: float
) -> None:
    assert behind(offset, COMMITS, heard) == seconds


@pytest.mark.parametrize(
    ("event", "answer", "equal"),
    [
        ('{"plays": 1, "others": [2], "warnings": []}', b'{"plays": 1, "warnings": ["x"]}', True),
        ('{"plays": 1}', b'{"plays": 2}', False),
        ("null", None, True),
        ("null", b'{"plays": 1}', False),
        ('{"plays": 1}', None, False),
    ],
)
def test_an_event_is_held_against_the_parts_that_are_read(event: str, answer: bytes | None, equal: bool) -> None:
    assert same(event, answer) is equal


def test_watchers_have_targets_of_lateness_of_cost_of_memory_and_of_losses() -> None:
    late = [200.0] * 98 + [900.0, 1_500.0]
    seen = Watching(late, [300.0, math.inf], [10, 30, 12], [15, 18, 90], differing=1, memory=[100, 104, 108])
    found = targets(Figures(watching=seen))
    assert [target.value for target in found] == [900, 1.5, 1.08, 2]
    assert [target.met for target in found] == [True, True, True, False]
    assert "| events behind the commit, p50 / p99 / greatest | 200 / 900 / 1,500 ms of 100 |" in report.text(
        Figures(watching=seen)
    )
