"""The store in memory, with the faults of a real store."""

from copy import deepcopy
from typing import Any

from streamstate.state.memory import MemoryStore


class FailingStore(MemoryStore):
    """A store of which the server restarts, or falls back to an earlier state."""

    def save(self) -> dict[int, Any]:
        """A copy of the current state, like the server's file or a lagging replica."""
        return deepcopy(self._partitions)

    def restart(self, saved: dict[int, Any] | None = None) -> None:
        """What a crash and restart of the server looks like from outside: nothing is lost, or all since `saved`."""
        self._server += " again"
        if saved is not None:
            self._partitions = deepcopy(saved)
