"""How often each word was said: each partition counts for itself, and a view without a topic adds up."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from streamstate.app import App, Fold, FoldContext, Record, Source, Totals
from streamstate.errors import BadRecord
from streamstate.keys import TEXT, TEXT_MAX_BYTES
from streamstate.state.operations import Field, Merge, Operation, Read
from streamstate.view import EXPLORE, View

LINES, WORD_COUNTS = "lines", "word-counts"
WORDS = "words"
"""The state key: the words of a partition, and how often each was said."""

_WORD = re.compile(r"\w+")


class Word(msgspec.Struct):
    """A word in lower case, and its count."""

    word: str
    count: int


def decode(_speaker: str, line: bytes | None) -> list[str]:
    """The words of a line in lower case. A word is the key of its total, so its length is limited to a key's."""
    if line is None:
        msg = "the line is null"
        raise BadRecord(msg)
    words = _WORD.findall(line.decode().lower())
    if any(len(word.encode()) > TEXT_MAX_BYTES for word in words):
        msg = f"a word has more than {TEXT_MAX_BYTES} bytes"
        raise BadRecord(msg)
    return words


def fold(records: Sequence[Record[str, list[str]]], _context: FoldContext) -> Iterable[Operation]:
    words = Counter(word for record in records for word in record.value)
    if words:
        yield Merge(WORDS, add=dict(words))


def reads(word: str) -> Sequence[Read]:
    return [Field(WORDS, word)]


def answer(word: str, partitions: Sequence[Sequence[Any]]) -> Word | None:
    counts = [count for (count,) in partitions if count is not None]
    return Word(word, sum(counts)) if counts else None


SUMMARY = "How often a word was said"
APP = App(
    name="words",
    folds=(Fold((Source(LINES, TEXT, decode, form="text"),), fold),),
    views=(View("words", "/v1/words/<key>", SUMMARY, None, TEXT, reads, answer, Word("anna", 3), scope=EXPLORE),),
    totals=(Totals(WORD_COUNTS, WORDS),),
)
