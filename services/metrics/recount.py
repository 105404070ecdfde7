"""The profiles and the plays of each hour, counted again."""

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from services.metrics.model import Metrics
from services.reference_decoding import listening_event
from streamstate.verify.profiles import ProfileRecount
from streamstate.verify.recount import Recounted, Stored, unequal

HOUR_MS = 3_600_000
HOURS_OF_PERIOD = 32 * 24


class MetricsRecount(ProfileRecount):
    """The users of a partition, and all their plays."""

    def __init__(self) -> None:
        super().__init__(Metrics.declared)
        self._count = 0
        self._hours: Counter[int] = Counter()
        self._now = self._late_plays = 0

    def add(self, message: Message, stream_time: int) -> bool:
        if listening_event(message) is None or not super().add(message, stream_time):
            return False
        self.add_erased(message, stream_time)
        return True

    def add_erased(self, message: Message, stream_time: int) -> None:
        self._count += 1
        hour, self._now = message.timestamp()[1] // HOUR_MS, stream_time // HOUR_MS
        if hour // HOURS_OF_PERIOD < self._now // HOURS_OF_PERIOD - 1:
            self._late_plays += 1
            self.counts = {"late_records": self._late_plays}
        else:
            self._hours[hour] += 1

    def expected_keys(self) -> Iterable[str]:
        yield from self._plays()
        yield from super().expected_keys()

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        return unequal(self._plays().get(key), stored) if key.startswith("plays") else super().wrong(key, stored)

    def _plays(self) -> dict[str, Stored]:
        """Over all users: the count, and the hours of the current and the previous period, each under its own key."""
        if not self._count:
            return {}
        expected: dict[str, Stored] = {"plays": {b"count": b"%d" % self._count}}
        current = self._now // HOURS_OF_PERIOD
        for period in (current - 1, current):
            hours = {b"%d" % h: b"%d" % n for h, n in self._hours.items() if h // HOURS_OF_PERIOD == period}
            if hours:
                expected[f"plays:{period % 2}"] = hours
        return expected


RECOUNT = Recounted("metrics", (Metrics.declared.topic,), MetricsRecount)
