"""What can go wrong that a user or an operator can act on: each message says what to do next."""


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
            f"a commit to {partition}, or a reset of it, stopped half way; restore the store from a backup, or run "
            f"`streamstate reset SERVICE --partition {number}`, and the service builds it anew from its topics"
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
