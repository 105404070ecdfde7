"""How often each word was said, by all speakers together."""

import re

import msgspec

from streamstate.app import App, Record, Totals
from streamstate.functions import Counters, State, fold, source, view
from streamstate.keys import TEXT

LINES, WORD_COUNTS = "lines", "word-counts"


class Words(State):
    """The words of the lines of a partition, in lower case."""

    words = Counters(TEXT)


class Word(msgspec.Struct):
    """A word in lower case, and its count."""

    word: str
    count: int


@fold(source(LINES, str))
def count(line: Record[str, str], state: Words) -> None:
    """Count the words of a line."""
    for word in re.findall(r"\w+", line.value.lower()):
        state.words.add(word)


@view("/v1/words/<key>", Word("anna", 3), scope="explore")
def words(word: str, state: Words) -> Word | None:
    """How often a word was said."""
    number = state.words.get(word)
    return Word(word, number) if number else None


APP = App("words", (count,), (words,), (Totals(WORD_COUNTS, Words.words.name),))
