"""The restore of saved partitions, key by key, into a Redis in use."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from redis.exceptions import OutOfMemoryError, ResponseError

from streamstate.errors import Declined
from streamstate.history.backup.loaded import SavedPartitions
from streamstate.state.deletion import StateDeleter
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import tag

COPIED = 1_000
"""Keys read at once."""

BYTES = 1 << 20
"""Bytes after which a script's call has no further key: Redis serves no other client meanwhile."""

_WRONG_VERSION = "payload version or checksum"


class Restorer:
    """Replaces partitions of `app` in the Redis of `client` by the partitions in `saved`.

    taken: when they were saved, if known.
    """

    def __init__(self, client: Client, app: str, saved: SavedPartitions, taken: datetime | None) -> None:
        self._client: Any = client
        self._app = app
        self._saved = saved
        self._taken = taken
        self._target = StateDeleter(client, app)

    def require_readable(self) -> None:
        """Raise `Declined` if Redis cannot read the saved values. Stores a value for a millisecond."""
        partition, source = next(iter(self._saved.items()))
        own = tag(self._app, partition)
        try:
            self._client.restore(f"{own}-trial", 1, source.dump(own), replace=True)
        except ResponseError as error:
            if _WRONG_VERSION not in str(error):
                raise
            msg = "Redis is older than the redis-server on the PATH, and cannot read its values: install its version"
            raise Declined(msg) from error

    def run(self, prepare: Callable[[], object], copied: Callable[[int], object] = lambda _keys: None) -> None:
        """Delete the present partitions, call `prepare`, which may change the saved ones, and copy them.

        From the first step to the last, reads, commits and claims refuse the partitions as incomplete, so an
        interrupted run does no harm: the next run begins anew. Afterwards, commits of earlier claims are refused.
        copied: gets the number of keys of each step. Raises `Declined` when Redis is full.
        """
        try:
            numbers = self._target.clear(self._saved, lambda _keys: None)
            prepare()
            for source in dict.fromkeys(self._saved.values()):
                for partition, values in self._values(source):
                    copied(self._target.replace(partition, numbers[partition], values))
            for partition, number in numbers.items():
                copied(self._target.replace(partition, number, self._completed(partition, number)))
        except OutOfMemoryError as error:
            msg = (
                f"Redis is full ({error}): give it memory, and run the restore again; until then the partitions of "
                f"{self._app} are refused"
            )
            raise Declined(msg) from error

    def _values(self, source: Any) -> Iterator[tuple[int, Mapping[bytes, bytes]]]:
        """The keys of `source` without the partitions' own hashes, serialized, by partition."""
        own = {tag(self._app, partition).encode() for partition in self._saved}
        saved = StateDeleter(source, self._app).keys()
        keys = ((p, key) for p, key in saved if self._saved.get(p) is source and key not in own)
        while batch := list(islice(keys, COPIED)):
            pipeline = source.pipeline(transaction=False)
            for _, key in batch:
                pipeline.dump(key)
            by_partition: defaultdict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
            for (partition, key), value in zip(batch, pipeline.execute(), strict=True):
                by_partition[partition].append((key, value))
            for partition, pairs in by_partition.items():
                yield from ((partition, dict(some)) for some in _in_pieces(pairs))

    def _completed(self, partition: int, number: int) -> Mapping[bytes, bytes]:
        """The partition's own hash, complete, under an epoch above all claims so far."""
        own, source = tag(self._app, partition), self._saved[partition]
        epochs = (each.hget(own, "epoch") for each in (self._client, source))
        fields = {"epoch": max(int(epoch or 0) for epoch in epochs) + 1, "begun": number, "ended": number}
        if self._taken:
            fields["backup"] = round(self._taken.timestamp() * 1_000)
        source.hset(own, mapping=fields)  # type: ignore[arg-type]  # numbers, too
        return {own.encode(): source.dump(own) or b""}


def _in_pieces(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """`pairs` in order, in pieces that end at `BYTES` of values."""
    piece: list[tuple[bytes, bytes]] = []
    size = 0
    for pair in pairs:
        piece.append(pair)
        size += len(pair[1])
        if size >= BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
