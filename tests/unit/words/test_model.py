"""How often each word was said, counted by hand."""

from typing import Any

import pytest

from services.words.model import APP, Word
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver


def said(*lines: bytes | None) -> Driver:
    """Each line in a partition of its own."""
    driver = Driver(APP, MemoryStore(), partitions=len(lines))
    for partition, line in enumerate(lines):
        driver.feed(partition, {"lines": [(0, 1_000, b"ann", line)]})
    return driver


def test_the_example_of_the_article() -> None:
    driver = said(b"To be, or not to be: that is the question.")
    counts = {"to": 2, "be": 2, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1}
    assert {word: driver.view("words", word) for word in counts} == {word: Word(word, n) for word, n in counts.items()}
    assert driver.view("words", "To") is None


def test_a_word_counts_over_all_partitions() -> None:
    driver = said(b"to be or not to be", "LET IT BE — \u00c9T\u00c9, \u00e9t\u00e9".encode(), b" ,;- ")
    assert driver.view("words", "be") == Word("be", 3)
    assert driver.view("words", "\u00e9t\u00e9") == Word("\u00e9t\u00e9", 2)
    assert driver.view("words", "question") is None


@pytest.mark.parametrize("line", [None, b"\xff", b"be " + b"x" * 1025])
def test_a_line_without_usable_words_is_a_dead_letter(line: Any) -> None:
    driver = said(line, b"be")
    assert [letter.value for letter in driver.dead] == [line]
    assert driver.view("words", "be") == Word("be", 1)
