"""The page and its charts."""

from devkit.bench import report
from devkit.bench.cpu import Usage
from devkit.bench.event_latency import EventLatency
from devkit.bench.figures import Figures
from devkit.bench.ingest import Mark, rates
from devkit.bench.read_load import Situation


def test_only_what_was_measured_is_told() -> None:
    text = report.text(Figures(rest=Usage(10, {"Kafka": 1, "streams": 3}, 0.25)))
    assert "| CPU of the whole demo at rest | 0.4 cores | at most 0.5 cores | 0.25 cores | yes |" in text
    assert "| demo at rest, cores | 0.40: Kafka 0.10, streams 0.30; pressure 25% |" in text
    assert "## Reads" not in text
    assert "## Where the time goes" not in text


def test_what_is_not_reached_tells_where_the_time_goes() -> None:
    text = report.text(Figures(freshness=EventLatency(151, 1, {"streams": 1.5, "Redis": 0.5, "none": 0}, None)))
    missed = "freshness at 5,000 events/s, p50; CPU of stream and Redis at 5,000 events/s"
    assert f"- {missed}: streams 75%, Redis 25%." in text


def test_a_situation_says_all_that_is_special_about_it() -> None:
    assert str(Situation(16)) == "16 connections"
    assert str(Situation(16, idle=1_000)) == "16 connections, 1,000 idle beside"
    assert str(Situation(16, events=5_000, paced=True)) == "16 connections at half the peak rate, 5,000 events/s"


def test_the_second_half_begins_where_half_is_folded() -> None:
    marks = [Mark(0, 0, 0, 0), Mark(10, 15, 5, 400), Mark(12, 18, 6, 600), Mark(14, 21, 7, 1_000)]
    found = rates(marks)
    assert (found.whole, found.warm) == (1_000 / 28, 100)
    assert found.warm_per_second == 200
    assert found.parts == {"until the first commit": 20, "then in the stream": 6, "then in Redis": 2}
