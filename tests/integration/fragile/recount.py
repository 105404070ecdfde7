"""The same, counted plainly."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Message

from streamstate.verify.recount import Recount, Recounted, Stored, unequal
from tests.integration.fragile.model import COUNTS, FIXED, LATER, TOPIC


class Fragile(Recount):
    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()

    def add(self, message: Message, _stream_time: int) -> bool:
        value = message.value() or b""
        if value == LATER and not Path(os.environ[FIXED]).exists():
            return False
        self._counts[value] += 1
        return True

    def expected_keys(self) -> Iterable[str]:
        return [COUNTS] if self._counts else []

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        counts = {value: b"%d" % count for value, count in self._counts.items()}
        return unequal(counts if key == COUNTS and counts else None, stored)


RECOUNT = Recounted("fragile", (TOPIC,), Fragile)
