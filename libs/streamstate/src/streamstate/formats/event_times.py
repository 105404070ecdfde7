"""Times that events name themselves, bounded by Kafka's timestamps of their records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamstate.errors import OutOfBounds

DAY_MS = 86_400_000


@dataclass(frozen=True)
class EventTimes:
    """The `times` of a `Source`: the members of an event with a time, in milliseconds since 1970.

    members: the path of each member in JSON, and the unit there (`s`, `ms`, `us`, `ns`), by the attribute of the event,
        which is in milliseconds; an absent time is None.
    ahead_ms, behind_ms: how far a time may be after and before Kafka's timestamp; None: no bound. A deployment sets
        both. clamp: whether a time out of bounds becomes the bound; otherwise its record is refused.
    """

    members: Mapping[str, tuple[str, str]]
    ahead_ms: int | None = None
    behind_ms: int | None = None
    clamp: bool = False

    def __call__(self, event: Any, timestamp: int) -> None:
        """Bound the times of `event` by its record's `timestamp`. Raises `OutOfBounds`."""
        for attribute, (path, _) in self.members.items():
            time = getattr(event, attribute, None)
            if time is not None and (bound := self.bound(time - timestamp)) is not None:
                if not self.clamp:
                    raise refusal(path, time - timestamp)
                setattr(event, attribute, timestamp + bound)

    def bound(self, distance: int) -> int | None:
        """The passed bound, in milliseconds after Kafka's timestamp; None for a `distance` within the bounds."""
        if self.ahead_ms is not None and distance > self.ahead_ms:
            return self.ahead_ms
        if self.behind_ms is not None and -distance > self.behind_ms:
            return -self.behind_ms
        return None


def refusal(path: str, distance: int) -> OutOfBounds:
    """The error for the time of the member at `path`, `distance` milliseconds after Kafka's timestamp."""
    after, setting = ("after", "AHEAD") if distance > 0 else ("before", "BEHIND")
    return OutOfBounds(
        f"{path} is too far {after} Kafka's timestamp: {abs(distance)} ms; correct the producer's clock, raise "
        f"STREAMSTATE_EVENT_{setting}_MS, or set STREAMSTATE_EVENT_BEYOND=clamp"
    )
