"""One time budget for everything that an answer needs."""

import time
from dataclasses import dataclass

from flask import request

from streamstate.web.problems import Problem, deadline_passed

HEADER = "X-Deadline-Ms"


@dataclass(frozen=True)
class Deadline:
    """`at` is on the monotonic clock, in seconds."""

    at: float

    @classmethod
    def of_request(cls, longest_ms: int) -> "Deadline":
        """What the caller allows by `X-Deadline-Ms`, at most `longest_ms`. Raises a 400 `Problem` for another text."""
        text = request.headers.get(HEADER, str(longest_ms))
        if not (text.isascii() and text.isdigit() and int(text[:9]) > 0 and len(text) < 10):
            raise Problem(400, "bad-deadline", f"{HEADER} is a whole number of milliseconds above 0")
        return cls(time.monotonic() + min(int(text), longest_ms) / 1000)

    @property
    def left(self) -> float:
        """Seconds left; raises a 504 `Problem` when there are none."""
        self.check()
        return self.at - time.monotonic()

    def share(self, part: float) -> "Deadline":
        """The deadline of one of several attempts, which gets `part` (0 to 1) of the time left."""
        return Deadline(time.monotonic() + part * self.left)

    def check(self) -> None:
        """Raise a 504 `Problem` when no time is left."""
        if self.at <= time.monotonic():
            raise deadline_passed()
