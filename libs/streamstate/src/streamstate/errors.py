"""Expected failures that a user or an operator can act on: each message says what to do next."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_COMMAND = re.compile(r"`(streamstate (?:[a-z]+ )+)SERVICE\b")
"""An operator's command in a message; SERVICE is filled in by the process, which knows the deployment."""


INEXACT = "a stored number would be beyond 2^53, up to which numbers are exact"


class StreamStateError(Exception):
    """Base of all expected failures; anything else is a bug and keeps its traceback."""


class BadRecord(StreamStateError):
    """An unusable record; it goes to the dead-letter topic and the stream goes on."""


class OutOfBounds(BadRecord):
    """A record whose event names a time too far from Kafka's timestamp."""


class UnknownSchema(BadRecord):
    """A record with a schema id unknown to the registry."""


class RegistryUnavailable(StreamStateError):
    """The schema registry does not answer, or refuses the request: records of schemas not yet fetched have to wait."""


class Fenced(StreamStateError):
    """The store refused a commit: another writer committed, or the store is not the one that the query started from."""


class Superseded(StreamStateError):
    """A commit's outputs were published by a record of releases that is no longer the latest."""


class Inexact(StreamStateError):
    """Commits that the store refused since a number would be beyond ±2^53; all others of the same call are applied."""

    def __init__(self, refused: Sequence[int]) -> None:
        """refused: the indexes of the commits in the call."""
        super().__init__(INEXACT)
        self.refused = refused


class IncompleteCommit(StreamStateError):
    """A commit or a deletion was applied to a partition in part: its state belongs to no offset.

    The text begins with `fact`, in the reports of all processes; the commands differ by their settings.
    """

    def __init__(self, partition: str) -> None:
        """`partition` is the hash tag of its keys, {name:number}."""
        number = partition.strip("{}").rpartition(":")[2]
        self.fact = f"a commit to {partition}, or a reset or restore of it, stopped half way, or has not ended"
        super().__init__(
            f"{self.fact}; run the restore again or restore a backup, or run `streamstate verify SERVICE --mend`, "
            "which accepts a partition that equals its topics, or "
            f"`streamstate reset SERVICE --partition {number}`, and the service builds it anew"
        )


class FencedInstance(StreamStateError):
    """The process lost its name in the consumer group for good: it hung too long, or another process has the name."""


class Declined(StreamStateError):
    """An operator asked for a change after which the state would differ from its topics."""


class NotRequested(StreamStateError):
    """A fold accessed a row or a part of the state that its `lookups` or `reads` did not declare."""


class BadParameter(StreamStateError):
    """A parameter of a request that the view refuses; the message begins with the parameter's name."""


class BadKey(StreamStateError):
    """A key in a request that is not of the key's type."""


class Misconfigured(StreamStateError):
    """Settings and the outside world (topics, ports, addresses) do not fit together."""


class BatchTooLarge(StreamStateError):
    """A micro-batch has more records than fit into the memory of its task; the records are read again in slices."""


class TooManyDeadLetters(StreamStateError):
    """The share of unusable records suggests a fault in the app: the stream stops."""

    def __init__(self, message: str, letters: Sequence[tuple[int, Any]]) -> None:
        """letters: some of the dead letters above the limit, of a commit that is not made, with their partitions."""
        super().__init__(message)
        self.letters = letters


class Commands:
    """The operator's commands for one deployment: a context manager that completes the commands in error messages."""

    def __init__(self, service: str, variables: Mapping[str, str]) -> None:
        """service: the name of its folder. variables: the environment variables that a command needs."""
        environment = (f"{name}={shlex.quote(value)}" for name, value in variables.items())
        self._begin, self._service = " ".join([*environment, ""]), service

    def complete(self, text: str) -> str:
        """`text` with complete commands, for any shell with access to the servers."""
        return _COMMAND.sub(lambda found: f"`{self._begin}{found[1]}{self._service}", text)

    def __enter__(self) -> None:
        """Nothing begins: only errors are touched."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, StreamStateError):
            error.args = tuple(self.complete(arg) if isinstance(arg, str) else arg for arg in error.args)
