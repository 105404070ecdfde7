"""The demands of a request on all processes involved in its answer: a time budget, and consistency headers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from streamstate.web.http.demands import HEADER, MAX_STALENESS, MIN_POSITION
from streamstate.web.http.problems import Problem, deadline_passed

_LOWER = HEADER.lower()
_DEMANDS = {name.lower(): name for name in (MIN_POSITION, MAX_STALENESS)}


@dataclass(slots=True)
class Spent:
    """The bytes of state that instances have read for a request so far."""

    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` is on the monotonic clock, in seconds; `demands` are headers that the answer's parts must meet too.

    `ids` are the headers that identify the request in the logs of all processes involved; `spent` is shared by all
    calls for the request.
    """

    at: float
    demands: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)

    @classmethod
    def given(cls, headers: Mapping[str, str], accepted: float, longest_ms: int, ids: Mapping[str, str]) -> "Deadline":
        """The deadline by `X-Deadline-Ms` in `headers` (names in lower case), at most `longest_ms` after `accepted`.

        Raises a 400 `Problem` for an invalid text.
        """
        text = headers.get(_LOWER)
        demands = {name: headers[lower] for lower, name in _DEMANDS.items() if lower in headers}
        if text is None:
            return cls(accepted + longest_ms / 1000, demands, ids)
        if not (text.isascii() and text.isdigit() and int(text[:9]) > 0 and len(text) < 10):
            raise bad_deadline()
        return cls(accepted + min(int(text), longest_ms) / 1000, demands, ids)

    @property
    def left(self) -> float:
        """Seconds left; raises a 504 `Problem` when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise deadline_passed()
        return left

    def share(self, part: float) -> "Deadline":
        """The deadline of one of several attempts, with the share `part` (0 to 1) of the time left."""
        return Deadline(time.monotonic() + part * self.left, self.demands, self.ids, self.spent)

    @property
    def headers(self) -> dict[str, str]:
        """The headers for another instance; raises a 504 `Problem` when no time is left."""
        return {HEADER: str(max(1, int(self.left * 1000))), **self.demands, **self.ids}


def bad_deadline() -> Problem:
    return Problem(400, "bad-deadline", f"{HEADER} is a whole number of milliseconds above 0")


def bad_demand(header: str, accepted: str) -> Problem:
    return Problem(400, "bad-demand", f"{header} is {accepted}")
