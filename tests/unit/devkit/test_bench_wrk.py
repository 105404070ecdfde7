"""What is asked of wrk, and what is read from its output."""

from pathlib import Path

import pytest

from devkit import DevkitError
from devkit.bench.wrk import SCRIPT, Clients, parse

OUTPUT = """Running 8s test @ http://127.0.0.1:8080/
  1 threads and 16 connections
Requests/sec:    500.25
{"requests": 4002, "seconds": 8.0, "p50_ms": 1.5, "p99_ms": 9.0, "bad": 3, "lost": 1, "refused": 0}
"""


def test_the_figures_are_those_of_the_last_line() -> None:
    answers = parse(OUTPUT, "")
    assert (answers.per_second, answers.p50_ms, answers.p99_ms) == (500.25, 1.5, 9.0)


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


def test_the_script_gets_paths_rate_and_tally() -> None:
    argv = Clients(connections=8, seconds=5, rate=100, tally=True, key="k").argv("127.0.0.1:80", Path("paths"))
    assert argv[:4] == ["wrk", "-t1", "-c8", "-d5s"]
    assert argv[-5:] == ["http://127.0.0.1:80/", "--", "paths", "100", "1"]
    assert "Authorization: Bearer k" in argv


def test_the_script_is_part_of_the_package() -> None:
    assert SCRIPT.exists()
