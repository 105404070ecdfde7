"""The words, counted again."""

import re
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from services.reference_decoding import text_key
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

LONGEST_BYTES = 1_024


class Words(Recount):
    """The words of a partition."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, message: Message, _stream_time: int) -> bool:
        value = message.value()
        if value is None or text_key(message.key()) is None:
            return False
        try:
            words = list(filter(None, re.split(r"\W+", value.decode().lower())))
        except UnicodeDecodeError:
            return False
        if max((len(word.encode()) for word in words), default=0) > LONGEST_BYTES:
            return False
        self._counts.update(words)
        return True

    def expected_keys(self) -> Iterable[str]:
        return ["words"] if self._counts else []

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        counts = {word.encode(): b"%d" % count for word, count in self._counts.items()}
        return unequal(counts or None if key == "words" else None, stored)


RECOUNT = Recounted("words", ("lines",), Words)
