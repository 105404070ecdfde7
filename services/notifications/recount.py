"""The states of users counted again, and upper bounds of windows."""

import json
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from services.reference_decoding import text_key
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

OPEN = "open"
CLOSED = (b"Close", b"Closed")
FAMILY = "windows"
MINUTE_MS, SIZE_MS = 60_000, 600_000


class States(Recount):
    """The users of a partition.

    The state of the user at a tick, and the tick's lateness, depend on the limits of micro-batches. So the records of a
    window's time are an upper bound, and the number of late records is open.
    """

    unsure = ("late_records",)

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}
        self._most: Counter[tuple[str, int]] = Counter()

    def add(self, message: Message, _stream_time: int) -> bool:
        user, value, time = text_key(message.key()), message.value(), message.timestamp()[1]
        if user is None or (message.topic() == OPEN and value not in (None, b"Open", *CLOSED)):
            return False
        if message.topic() == OPEN:
            self._rows.pop(user, None)
            if value is not None:
                self._rows[user] = value
        if message.topic() != OPEN or value in CLOSED:
            last = time // MINUTE_MS * MINUTE_MS
            self._most.update((user, start) for start in range(last, time - SIZE_MS, -MINUTE_MS) if start >= 0)
        return True

    def expected_keys(self) -> Iterable[str]:
        return (f"{OPEN}:{user}" for user in self._rows)

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        kind, _, user = key.partition(":")
        if kind != FAMILY:
            return unequal(self._rows.get(user) if kind == OPEN else None, stored)
        if not isinstance(stored, dict):
            return unequal("windows", stored)
        if key == FAMILY:
            strange = {name.decode() for name in stored} - {user for user, _ in self._most}
            return unequal("users who were told something", strange) if strange else None
        for member, score in stored.items():
            start, count, least, most, total = json.loads(member)
            if (start, least, most, total) != (score, 1, 1, count) or not 0 < count <= self._most[user, start]:
                return f"expected {self._most[user, start]} at most from {start}, found {count}"
        return None


RECOUNT = Recounted("notifications", (OPEN, "tick"), States)
