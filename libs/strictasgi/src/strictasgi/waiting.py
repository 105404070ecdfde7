"""The connections of a process without a request in progress: closed after a time limit, or beyond a number."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

PATIENCE_S = 5.0
"""Seconds for the head of a request, from the connection or the first byte on."""

IDLE_S = 75.0
"""The least seconds that an idle connection is kept: more than at clients, so few requests meet a closed connection."""


class Ending(Protocol):
    """A connection."""

    def end(self) -> None:
        """Close now, without an answer."""


class Waiting:
    """Connections with the start of their wait by `clock` (seconds), the longest wait first.

    idle_s: the seconds that an idle connection is kept.
    """

    def __init__(self, clock: Callable[[], float], idle_s: float = IDLE_S) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._hurried: OrderedDict[Ending, float] = OrderedDict()
        self._idle: OrderedDict[Ending, float] = OrderedDict()

    def hurry(self, connection: Ending) -> None:
        """Give `connection` `PATIENCE_S` from now on, unless the time already runs."""
        self._idle.pop(connection, None)
        if connection not in self._hurried:
            self._hurried[connection] = self._clock()

    def keep(self, connection: Ending) -> None:
        """Give `connection` the time of an idle one from now on."""
        self._idle[connection] = self._clock()

    def cancel(self, connection: Ending) -> None:
        """Remove `connection`."""
        if self._idle.pop(connection, None) is None:
            self._hurried.pop(connection, None)

    def end_overdue(self) -> None:
        """End the connections beyond their time."""
        for connections, limit in ((self._hurried, PATIENCE_S), (self._idle, self._idle_s)):
            while connections and next(iter(connections.values())) < self._clock() - limit:
                connections.popitem(last=False)[0].end()

    def end_oldest(self) -> None:
        """End the connection with the longest wait, if any."""
        waiting = [connections for connections in (self._hurried, self._idle) if connections]
        if waiting:
            longest = min(waiting, key=lambda connections: next(iter(connections.values())))
            longest.popitem(last=False)[0].end()

    def end_all(self) -> None:
        """End all waiting connections."""
        for connection in [*self._hurried, *self._idle]:
            connection.end()
