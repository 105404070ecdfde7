"""The clicks of regions and the regions of users, counted again."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from confluent_kafka import Message

from services.reference_decoding import text_key
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

TOTALS = "regions"
UNKNOWN = "UNKNOWN"
MOST = 2**53


class ClicksRecount(Recount):
    """The users of a partition.

    The position of a click between two regions of its user depends on the limits of micro-batches: any region of the
    user, or none, is right. The sum is exact.
    """

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}
        self._ever: defaultdict[str, set[str]] = defaultdict(lambda: {UNKNOWN})
        self._clicks: Counter[str] = Counter()

    def add(self, message: Message, _stream_time: int) -> bool:
        user, value = text_key(message.key()), message.value()
        if user is None:
            return False
        if message.topic() == "user-regions":
            return self._move(user, value)
        if not (value and len(value) <= 16 and value.isdigit() and int(value) <= MOST):
            return False
        self._clicks[user] += int(value)
        return True

    def add_erased(self, message: Message, stream_time: int) -> None:
        """Clicks stay counted, in any region where their user was."""
        user = text_key(message.key()) or ""
        row = self._rows.get(user)
        self.add(message, stream_time)
        self._rows.pop(user, None)
        if row is not None:
            self._rows[user] = row

    def _move(self, user: str, value: bytes | None) -> bool:
        if value is None:
            self._rows.pop(user, None)
            return True
        region = text_key(value)
        if region is None:
            return False
        self._rows[user] = region
        self._ever[user].add(region)
        return True

    def expected_keys(self) -> Iterable[str]:
        yield from (f"region:{user}" for user in self._rows)
        if self._clicks:
            yield TOTALS

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        if key != TOTALS or not self._clicks:
            region = self._rows.get(key.removeprefix("region:")) if key.startswith("region:") else None
            return unequal(None if region is None else region.encode(), stored)
        if not isinstance(stored, dict):
            return unequal("totals", stored)
        totals = {name.decode(): int(clicks) for name, clicks in stored.items()}
        most: Counter[str] = Counter()
        for user, clicks in self._clicks.items():
            for region in self._ever[user]:
                most[region] += clicks
        if any(clicks > most[region] for region, clicks in totals.items()):
            return f"expected at most {dict(most)}, found {totals}"
        return unequal(self._clicks.total(), sum(totals.values()))


RECOUNT = Recounted("clicks", ("user-regions", "user-clicks"), ClicksRecount)
