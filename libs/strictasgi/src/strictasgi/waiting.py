"""The connections of a process on which nothing is being answered: who waits too long, or is one too many, is ended."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

PATIENCE_S = 5.0
"""How long the head of a request may take, from the connection or its first byte on."""

IDLE_S = 75.0
"""How long a connection is kept for another request: longer than clients keep it, so that few are closed under one."""


class Ending(Protocol):
    """A connection."""

    def end(self) -> None:
        """Close now, without an answer."""


class Waiting:
    """Each connection with the moment since when it waits, by `clock` (seconds); those that wait longest come first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hurried: OrderedDict[Ending, float] = OrderedDict()
        self._idle: OrderedDict[Ending, float] = OrderedDict()

    def hurry(self, connection: Ending) -> None:
        """It has `PATIENCE_S` from now on, unless it has them already, until it is `over`."""
        self._idle.pop(connection, None)
        if connection not in self._hurried:
            self._hurried[connection] = self._clock()

    def keep(self, connection: Ending) -> None:
        """It has `IDLE_S` from now on."""
        self._idle[connection] = self._clock()

    def cancel(self, connection: Ending) -> None:
        """It does not wait any more."""
        if self._idle.pop(connection, None) is None:
            self._hurried.pop(connection, None)

    def end_overdue(self) -> None:
        """End those whose time is over."""
        for connections, limit in ((self._hurried, PATIENCE_S), (self._idle, IDLE_S)):
            while connections and next(iter(connections.values())) < self._clock() - limit:
                connections.popitem(last=False)[0].end()

    def end_oldest(self) -> None:
        """End the one that waits longest, if any waits."""
        waiting = [connections for connections in (self._hurried, self._idle) if connections]
        if waiting:
            longest = min(waiting, key=lambda connections: next(iter(connections.values())))
            longest.popitem(last=False)[0].end()

    def end_all(self) -> None:
        """End all that wait."""
        for connection in [*self._hurried, *self._idle]:
            connection.end()
