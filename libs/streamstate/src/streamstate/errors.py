"""What can go wrong that a user or an operator can act on: each message says what to do next."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_COMMAND = re.compile(r"`(streamstate (?:[a-z]+ )+)SERVICE\b")
"""A command of an operator, as messages have it: where an error is raised, nobody knows what is deployed."""


class StreamStateError(Exception):
    """Base of all expected failures; anything else is a bug and keeps its traceback."""


class BadRecord(StreamStateError):
    """A record that the app cannot use; it goes to the dead-letter topic and the stream goes on."""


class UnknownSchema(BadRecord):
    """A record with a schema id that the registry does not know."""


class RegistryUnavailable(StreamStateError):
    """The schema registry does not answer, or refuses to: what needs a schema that is not known yet has to wait."""


class Fenced(StreamStateError):
    """A commit that the store refused: another writer, or a store that is not the one the query started from."""


class IncompleteCommit(StreamStateError):
    """A partition of which a commit was applied, or the state deleted, in part: it is the state of no offset."""

    def __init__(self, partition: str) -> None:
        """`partition` is the hash tag with which its keys begin, {name:number}."""
        number = partition.strip("{}").rpartition(":")[2]
        super().__init__(
            f"a commit to {partition}, or a reset of it, stopped half way; run `streamstate verify SERVICE --mend`, "
            "which takes it for whole if it equals its topics, or restore the store from a backup, or run "
            f"`streamstate reset SERVICE --partition {number}`, and the service builds it anew"
        )


class FencedInstance(StreamStateError):
    """The process lost its name in the consumer group for good: it hung for too long, or another one has the name."""


class Declined(StreamStateError):
    """A change that an operator asked for, and that would make the state another one than its topics give."""


class NotRequested(StreamStateError):
    """A fold looked at a row or a part of the state that its `lookups` or `reads` did not ask for."""


class BadKey(StreamStateError):
    """A key in a request that is not of the key's type."""


class Misconfigured(StreamStateError):
    """Settings and the outside world (topics, ports, addresses) do not fit together."""


class BatchTooLarge(StreamStateError):
    """A micro-batch has more records than the memory of its task is for; what it read is read again in slices."""


class TooManyDeadLetters(StreamStateError):
    """So many records cannot be used that the fault is more likely in the app: the stream stops."""

    def __init__(self, message: str, letters: Sequence[tuple[int, Any]]) -> None:
        """letters: some of those that crossed the bound, of a commit that is not made, with their partitions."""
        super().__init__(message)
        self.letters = letters


class Commands:
    """The commands of an operator about one deployment: `with` it, those in the messages of errors are complete."""

    def __init__(self, service: str, variables: Mapping[str, str]) -> None:
        """service: the name of its folder. variables: what a command needs in its environment."""
        environment = (f"{name}={shlex.quote(value)}" for name, value in variables.items())
        self._begin, self._service = " ".join([*environment, ""]), service

    def complete(self, text: str) -> str:
        """`text` with commands that run as printed, in any shell that reaches the servers."""
        return _COMMAND.sub(lambda found: f"`{self._begin}{found[1]}{self._service}", text)

    def __enter__(self) -> None:
        """Nothing begins: only errors are touched."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, StreamStateError):
            error.args = tuple(self.complete(arg) if isinstance(arg, str) else arg for arg in error.args)
