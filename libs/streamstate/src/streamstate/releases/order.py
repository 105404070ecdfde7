"""The order of outputs over the turns of releases: readers take a record with an earlier marker for a repeat."""

import time
from collections.abc import Callable, Mapping

import structlog

from streamstate.releases.record import Place, Voice

PATIENCE_S = 5.0
"""Seconds without progress of another release, after which its outputs are no longer awaited."""

PAUSE_S = 0.02

Between = Mapping[Place, tuple[int, int]]
"""The first and the last offset of records, by topic and partition."""

log = structlog.get_logger()


class Order:
    """Lets the release with the last turn publish behind the earlier outputs of other releases.

    No other release waits, so no two releases wait for each other.

    reached: the next offset that a release folds in a topic's partition, infinite where it is unknown.
    """

    def __init__(
        self, voice: Callable[[], Voice], reached: Callable[[str, Place], float], patience_s: float = PATIENCE_S
    ) -> None:
        self._voice = voice
        self._reached = reached
        self._patience_s = patience_s
        self._awaited: dict[Place, Mapping[str, int]] = {}

    def divides(self, between: Between) -> bool:
        """Whether another release publishes outputs between these records."""
        before = self._voice().before
        return any(before(place, first) != before(place, last) for place, (first, last) in between.items())

    def wait(self, between: Between) -> None:
        """Wait until other releases have published their outputs before these records, or make no progress."""
        late, deadline = self._late(between), time.monotonic() + self._patience_s
        while late and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            before, late = late, self._late(between)
            if late != before:
                deadline = time.monotonic() + self._patience_s
        if late:
            log.warning("releases stand before a cut; readers drop their later outputs", releases=sorted(late))
        self._awaited |= self._ends(between)

    def _ends(self, between: Between) -> Mapping[Place, Mapping[str, int]]:
        voice = self._voice()
        return {place: voice.before(place, last) for place, (_, last) in between.items()}

    def _late(self, between: Between) -> Mapping[tuple[str, Place], float]:
        """The next offsets of releases that have outputs before these records to publish."""
        new = ((place, of) for place, of in self._ends(between).items() if of != self._awaited.get(place, {}))
        at = {(name, place): (self._reached(name, place), end) for place, of in new for name, end in of.items()}
        return {each: offset for each, (offset, end) in at.items() if offset < end}
