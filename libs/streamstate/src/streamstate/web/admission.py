"""How much a process takes on: a bounded number of requests at a time; the others are refused at once."""

from collections.abc import Callable

from flask import Flask

_EXTENSION = "streamstate.admission"


class Admission:
    """Counts the requests in flight, those that wait for a thread included. For one thread.

    most: of them at a time.
    refused: called with the kind of the problem, for a request that the application never sees; safe for threads.
    """

    def __init__(self, most: int, refused: Callable[[str], None]) -> None:
        self._most = most
        self._in_flight = 0
        self.refused = refused

    def install(self, app: Flask) -> None:
        """Let the server of `app` find it."""
        app.extensions[_EXTENSION] = self

    @staticmethod
    def of(app: object) -> "Admission":
        """That of a Flask application; raises KeyError when none was installed."""
        assert isinstance(app, Flask)
        found: Admission = app.extensions[_EXTENSION]
        return found

    @property
    def full(self) -> bool:
        """Whether there is no room for one more."""
        return self._in_flight >= self._most

    def enter(self) -> None:
        """A request is taken on."""
        self._in_flight += 1

    def leave(self) -> None:
        """A request that entered is answered."""
        self._in_flight -= 1
