"""Targets of the bench, and what is read from the output of wrk."""

from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.bench import reads, wrk
from devkit.bench.reads import COMBINED, FEW, Read, Situation
from devkit.bench.report import BenchReport, Target
from devkit.bench.wrk import LoadResult, parse

# Targets and failures.


def read(name: str) -> Read:
    return Read(name, "127.0.0.1:1", Path("paths"), {})


@pytest.mark.parametrize(
    ("value", "at_least", "met"), [(4, False, True), (4.1, False, False), (4, True, True), (3.9, True, False)]
)
def test_a_target_is_met_at_its_limit(value: float, at_least: bool, met: bool) -> None:
    assert Target("x", value, 4, at_least=at_least).met is met


def test_failed_requests_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = LoadResult(1_000, 10, 1, 1, 3, 0, 0)
    monkeypatch.setattr(wrk, "run", lambda *_: answers)
    report = BenchReport()
    reads.measure(read(COMBINED), Situation(), report)
    assert report.failures == [f"{COMBINED}, {FEW} connections: 3 of 1,000 answers failed"]


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
