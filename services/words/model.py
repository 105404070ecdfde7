"""How often each word was said, by all speakers together."""

import re

import msgspec

from streamstate.app import App, Record, Totals
from streamstate.functions import Counters, State, fold, source, view
from streamstate.keys import TEXT


class Words(State):
    """The words of the lines of a partition, in lower case."""

    words = Counters(TEXT)


class Word(msgspec.Struct):
    """A word in lower case, and its count."""

    word: str
    count: int


@fold(source("lines", str))
def count(line: Record[str, str], state: Words) -> None:
    for word in re.findall(r"\w+", line.value.lower()):
        state.words.add(word)


@view("/v1/words/<key>", Word("anna", 3), scope="explore")
def words(word: str, state: Words) -> Word | None:
    """How often a word was said."""
    number = state.words.get(word)
    return Word(word, number) if number else None


APP = App("words", (count,), (words,), (Totals("word-counts", Words.words.name),))
