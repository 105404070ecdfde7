"""The stored keys of one partition, compared with its replay while the stream goes on."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice

from redis.exceptions import ResponseError

from streamstate.state.redis import RedisStore
from streamstate.verify.difference import Difference
from streamstate.verify.partition import PartitionReplay
from streamstate.verify.redis_state import RedisState
from streamstate.view import SEEN

CHUNK = 200
"""Keys read in one transaction: Redis serves no other client meanwhile."""

_BUCKET = re.compile(r"^([^:]*)\.[0-9]+(?=:|$)")
"""The beginning of a key of a bucket of a compact ranking, with its number."""


class KeyCheck:
    """Compares what `store` and the replay answer to the same reads of each key. keys: the number of stored keys."""

    def __init__(self, store: RedisStore, state: RedisState, partition: int, replay: PartitionReplay) -> None:
        self.keys = 0
        self._store = store
        self._state = state
        self._partition = partition
        self._replay = replay
        self._unknown: list[str] = []

    def run(self) -> list[Difference]:
        """The differences of the stored keys, then of missing keys, then of the partition's own fields."""
        replay, partition = self._replay, self._partition
        replay.advance(self._store.inspect(partition, []))
        seen: set[str] = set()
        differences: list[Difference] = []
        self._unknown.clear()
        for keys in chunks(key for key in self._state.keys(partition) if key.partition(":")[0] != SEEN):
            differences += self._compare(keys)
            seen.update(keys)
        for keys in chunks([key for key in replay.written() if key not in seen]):
            differences += self._compare(keys)
        differences += (
            Difference(self._place(key), "is written by no record")
            for key in self._unknown
            if not (replay.erased and self._is_emptied_family(key, seen))
        )
        state = self._store.inspect(partition, [])
        replay.advance(state)
        if reason := replay.wrong_fields(state):
            differences.append(Difference(self._state.tag(partition), reason))
        self.keys = len(seen)
        return differences

    def _compare(self, keys: Sequence[str]) -> Iterator[Difference]:
        """The differences of `keys`, read at one moment."""
        replay, partition = self._replay, self._partition
        if not all(map(replay.readable, keys)):
            # A scanned key may be newer than the replay.
            replay.advance(self._store.inspect(partition, []))
        known = {key: readable for key in keys if (readable := replay.readable(key))}
        try:
            state = self._store.inspect(partition, [read for readable in known.values() for read in readable.reads])
        except ResponseError:
            yield from self._compare_each(keys)
            return
        replay.advance(state)
        values = iter(state.values)
        for key in keys:
            if readable := known.get(key):
                if reason := replay.wrong(readable, list(islice(values, len(readable.reads))), state.expired):
                    yield Difference(self._place(key), reason)
            elif not replay.readable(_BUCKET.sub(r"\1", key)):
                self._unknown.append(key)

    def _place(self, key: str) -> str:
        return f"{self._state.tag(self._partition)}:{key}"

    def _is_emptied_family(self, key: str, seen: Set[str]) -> bool:
        """Whether `key` names timelines of which none is left: a family that only deleted users had."""
        (held,) = self._state.read(self._partition, [key]).values
        return isinstance(held, dict) and not any(f"{key}:{name.decode()}" in seen for name in held)

    def _compare_each(self, keys: Sequence[str]) -> Iterator[Difference]:
        """The differences of `keys`, of which one cannot be read."""
        if len(keys) == 1:
            yield Difference(self._place(keys[0]), "holds a value of another type")
            return
        for key in keys:
            yield from self._compare([key])


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    """`keys` in lists of at most `CHUNK`."""
    remaining = iter(keys)
    return iter(lambda: list(islice(remaining, CHUNK)), [])
