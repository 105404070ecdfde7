"""Times of answers, held against the times of the records."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

_UNITS = {"seconds": (1_000, 1), "microseconds": (1, 1_000), "nanoseconds": (1, 1_000_000)}
"""By unit, what a number is multiplied by, and divided by, for milliseconds."""

_SECONDS = range(10**8, 10**11)
"""Seconds since 1970 of times from 1973 on; as milliseconds, they are before 1974."""


class Span(NamedTuple):
    """The times of the first record, and of the latest, or the present if it is later. Milliseconds since 1970."""

    first: int
    last: int

    def __contains__(self, moment: object) -> bool:
        if not isinstance(moment, int) or not self.first <= moment <= self.last:
            return False
        # After a record dated 1970, all seconds of today would be milliseconds of that January.
        return moment not in _SECONDS or moment * 1_000 > self.last

    def unit(self, number: int) -> str:
        """The unit in which `number` would be a time within, other than milliseconds; empty without one."""
        for unit, (factor, divisor) in _UNITS.items():
            if number * factor // divisor in self:
                return unit
        with suppress(ValueError):
            day = datetime.strptime(str(number), "%Y%m%d").replace(tzinfo=UTC)
            if round(day.timestamp() * 1_000) in self:
                return "the form yyyymmdd"
        return ""

    def refusal(self, moment: int) -> str:
        """Why a time is refused that is not within, and the next step."""
        unit = self.unit(moment)
        advice = f"it is in {unit}: give milliseconds since 1970, or ISO 8601" if unit else "leave such times out"
        return f"and the records are from {shown(self.first)} to {shown(self.last)}; {advice}"


def shown(moment: int) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return f"{moment} ({datetime.fromtimestamp(moment // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ})"
    return str(moment)
