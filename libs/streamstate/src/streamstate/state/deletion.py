"""The replacement of partitions in Redis: deleted so that a service builds them anew, or restored.

Each command makes Redis do a bounded amount of work, so other clients wait briefly.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from redis.exceptions import ResponseError

from streamstate.errors import Declined
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import Script, script_keys, tag

SCANNED, UNLINKED = 1_000, 500
"""Keys that one command scans, and deletes."""

REPLACE = Script("replace.lua")

_OFFSET = b"offset:"
_REPLACED = "REPLACED "


@dataclass
class Holding:
    """A stored partition: the number of its keys, and the next offsets by topic."""

    keys: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)


class StateDeleter:
    """Deletes partitions of one app, complete or incomplete."""

    def __init__(self, client: Client, app: str) -> None:
        self._client = client
        self._app = app
        self._key = re.compile(rb"\{%b:([0-9]+)\}(:.*)?" % re.escape(app.encode()), re.DOTALL)
        self._script = client.register_script(REPLACE.text)

    def holdings(self) -> dict[int, Holding]:
        """The stored partitions."""
        seen: defaultdict[int, Holding] = defaultdict(Holding)
        for partition, _ in self.keys():
            seen[partition].keys += 1
        for partition, holding in seen.items():
            holding.positions = self._positions(partition)
        return dict(sorted(seen.items()))

    def run(self, partitions: Collection[int], deleted: Callable[[int], object] = lambda _keys: None) -> None:
        """Delete all of `partitions`; `deleted` gets the number of keys of each step.

        Afterwards, commits of earlier claims are refused.
        """
        numbers = self.clear(partitions, deleted)
        for partition, number in numbers.items():
            deleted(self.replace(partition, number, {tag(self._app, partition).encode(): b""}))

    def clear(self, partitions: Collection[int], deleted: Callable[[int], object]) -> Mapping[int, int]:
        """Delete the keys of `partitions` apart from their own hashes; returns the number of each replacement.

        From the first step to the replacement of the hash, reads, commits and claims refuse the partitions as
        incomplete, so an interrupted run does no harm: the next run deletes the rest.
        """
        numbers = {partition: self._client.hincrby(tag(self._app, partition), "begun", 1) for partition in partitions}
        # A scan may miss a key that moves between nodes of a cluster: scan until no key is found.
        while self._unlink_keys(numbers, deleted):
            pass
        return numbers

    def replace(self, partition: int, number: int, values: Mapping[bytes, bytes]) -> int:
        """Set keys to `values`, serialized by DUMP; an empty value deletes the key. Returns the number of changed keys.

        number: of the partition's last replacement. Raises `Declined` for an earlier or finished replacement.
        """
        _, *keys = script_keys(tag(self._app, partition))
        try:
            return int(self._script(keys, [number, *(part for item in values.items() for part in item)]))
        except ResponseError as error:
            if not str(error).startswith(_REPLACED):
                raise
            msg = f"{str(error).removeprefix(_REPLACED)}: wait for its end, then see `streamstate status`"
            raise Declined(msg) from error

    def keys(self) -> Iterator[tuple[int, bytes]]:
        """Each key with its partition; a scan may return a key twice."""
        for key in self._client.scan_iter(match=f"{{{self._app}:*", count=SCANNED):
            if match := self._key.fullmatch(key):
                yield int(match[1]), key

    def _unlink_keys(self, numbers: Mapping[int, int], deleted: Callable[[int], object]) -> bool:
        """Delete the keys found by a scan, apart from the partitions' own hashes; returns whether there were any."""
        marked = {tag(self._app, partition).encode() for partition in numbers}
        keys = ((partition, key) for partition, key in self.keys() if partition in numbers and key not in marked)
        seen = False
        while batch := list(islice(keys, UNLINKED)):
            by_partition: defaultdict[int, dict[bytes, bytes]] = defaultdict(dict)
            for partition, key in batch:
                by_partition[partition][key] = b""
            for partition, values in by_partition.items():
                deleted(self.replace(partition, numbers[partition], values))
            seen = True
        return seen

    def _positions(self, partition: int) -> Mapping[str, int]:
        fields: Mapping[Any, Any] = self._client.hgetall(tag(self._app, partition))
        return {name[len(_OFFSET) :].decode(): int(at) for name, at in fields.items() if name.startswith(_OFFSET)}
