"""Events of watchers, compared with commits."""

import math

import pytest

from devkit.bench.report import Report
from devkit.bench.watchers.commits import behind
from devkit.bench.watchers.measure import Watching

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


def test_watchers_have_targets_of_delay_of_cost_of_memory_and_of_losses() -> None:
    late = [200.0] * 98 + [900.0, math.inf]
    report = Report()
    Watching(late, [10, 30, 12], [15, 18, 90], ended=1, memory=[100, 104, 108]).tell(report)
    assert [target.value for target in report.targets] == [900, 1.5, 1.08, 2]
    assert [target.met for target in report.targets] == [True, True, True, False]
    shown = report.sections["Watchers"]["events behind the commit, p50 / p99 / greatest"]
    assert shown == "200 / 900 / inf ms of 100"
