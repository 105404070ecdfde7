"""Targets of the bench, its page, and what is read from the output of wrk."""

from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.bench import freshness, reads, wrk
from devkit.bench.cpu import Usage
from devkit.bench.ingest import Ingest, rates
from devkit.bench.reads import COMBINED, FEW, OWNER, STREAMS, Measured, Read, Reads, Situation
from devkit.bench.report import BenchReport, Target
from devkit.bench.wrk import LoadResult, parse

# Targets, tables and the page.


def measured(name: str, cpu: dict[str, float], situation: Situation, p99_ms: float = 10) -> Measured:
    return Measured(name, situation, LoadResult(1_000, 10, p99_ms / 2, p99_ms, 0, 0, 0), Usage(10, cpu, None))


def read(name: str) -> Read:
    return Read(name, "127.0.0.1:1", Path("paths"), {})


@pytest.mark.parametrize(
    ("value", "at_least", "met"), [(4, False, True), (4.1, False, False), (4, True, True), (3.9, True, False)]
)
def test_a_target_is_met_at_its_limit(value: float, at_least: bool, met: bool) -> None:
    assert Target("x", value, 4, at_least=at_least).met is met


def test_a_missed_target_shows_the_shares_of_the_processes() -> None:
    parts = {"streams": 1.5, "Redis": 0.5, "none": 0}
    missed = Target("freshness", 151, 150, 100, "ms", parts=parts)
    assert missed.row == ("freshness", "151 ms", "at most 150 ms", "100 ms", "no: streams 75%, Redis 25%")


def test_the_text_has_measured_sections_only() -> None:
    report = BenchReport()
    freshness.tell([100, 100], Usage(10, {STREAMS: 5, "Redis": 2.5}, 0.25), report)
    text = report.text()
    assert "| CPU of stream and Redis at 5,000 events/s | 0.75 cores | at most 0.8 cores | 0.5 cores | yes |" in text
    assert "| cores meanwhile | 0.75: streams 0.50, Redis 0.25; pressure 25% |" in text
    assert "## Reads" not in text


def test_the_page_keeps_its_terms(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text("# Figures\n\nTerms.\n\n## Conditions\n\nold\n")
    report = BenchReport()
    report.sections["Streams"]["ingest"] = "1"
    report.write(page, 1_000)
    text = page.read_text()
    assert text.startswith("# Figures\n\nTerms.\n\n## Conditions\n\n- ")
    assert "- a state of 1,000 seeded events in 8 partitions\n\n## Streams\n\n| what | figure |\n" in text
    assert text.endswith("| ingest | 1 |\n")


def test_reads_are_compared_with_the_peer_with_walks_and_with_the_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {OWNER: {"owner": 0.4}, COMBINED: {"gateway": 1.0, "recommender": 2.0}, "theirs": {"Kafka Streams": 0.1}}

    def measure(read: Read, situation: Situation, _: BenchReport) -> Measured:
        return measured(read.name, costs[read.name], situation, 30 if situation.events else 10)

    monkeypatch.setattr(reads, "measure", measure)
    monkeypatch.setattr(reads, "warm", lambda _: None)
    monkeypatch.setattr(reads, "READ_S", 0)
    report = BenchReport()
    each = Reads([read(OWNER), read(COMBINED)], read("theirs"), 2, report)
    each.idle()
    each.loaded()
    assert [(target.value, target.met) for target in report.targets] == [
        (pytest.approx(4), True),
        (pytest.approx(1.5), True),
        (20, False),
        (20, False),
    ]
    assert len(report.reads) == 2 * 6 + 2


def test_failed_requests_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = LoadResult(1_000, 10, 1, 1, 3, 0, 0)
    monkeypatch.setattr(wrk, "run", lambda *_: answers)
    report = BenchReport()
    reads.measure(read(COMBINED), Situation(), report)
    assert report.failures == [f"{COMBINED}, {FEW} connections: 3 of 1,000 answers failed"]


def test_the_second_half_begins_where_half_is_folded() -> None:
    marks = [(400, 10, 15, 5), (600, 12, 18, 6), (1_000, 14, 21, 7)]
    found = rates([(n, Usage(s, {"stream": a, "Redis": b}, None)) for n, s, a, b in marks])
    assert (found.whole, found.warm) == (1_000 / 28, 100)
    assert found.per_second == "71, second half 200"
    assert found.parts == {"until the first commit": 20, "then in stream": 6, "then in Redis": 2}


def test_ingest_is_compared_by_halves_and_as_a_whole() -> None:
    report = BenchReport()
    Ingest(30, 44, "1").compare(Ingest(20, 20, "1"), report)
    assert [target.value for target in report.targets] == [pytest.approx(2.2), pytest.approx(1.5)]


# The arguments of wrk, and its output.

OUTPUT = """Running 8s test @ http://127.0.0.1:8080/
  1 threads and 16 connections
Requests/sec:    500.25
{"requests": 4002, "seconds": 8.0, "p50_ms": 1.5, "p99_ms": 9.0, "bad": 3, "lost": 1, "refused": 0}
"""


def test_an_answer_that_is_not_200_and_one_that_never_came_are_failures() -> None:
    assert parse(OUTPUT, "").failures == 4


def test_a_refusal_that_was_tallied_is_no_failure() -> None:
    answers = parse(OUTPUT.replace('"refused": 0', '"refused": 2'), "")
    assert (answers.refused, answers.failures) == (2, 2)


@pytest.mark.parametrize("output", ["", "Running 8s test\nunable to connect"])
def test_without_figures_it_says_what_wrk_printed(output: str) -> None:
    with pytest.raises(DevkitError, match="refused"):
        parse(output, "Connection refused")


def test_a_server_that_never_answers_is_an_error() -> None:
    with pytest.raises(DevkitError, match="no answer at all"):
        parse(OUTPUT.replace("4002", "0"), "")
