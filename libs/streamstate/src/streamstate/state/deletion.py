"""The deletion of partitions from Redis, so that a service builds them anew.

Each command makes Redis do a bounded amount of work, so other clients wait briefly.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from streamstate.state.redis import Client
from streamstate.state.redis_reads import tag

SCANNED, UNLINKED = 1_000, 500
"""Keys that one command scans, and deletes."""

_OFFSET = b"offset:"


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

    def holdings(self) -> dict[int, Holding]:
        """The stored partitions."""
        seen: defaultdict[int, Holding] = defaultdict(Holding)
        for partition, _ in self._keys():
            seen[partition].keys += 1
        for partition, holding in seen.items():
            holding.positions = self._positions(partition)
        return dict(sorted(seen.items()))

    def run(self, partitions: Collection[int], deleted: Callable[[int], object] = lambda _keys: None) -> None:
        """Delete all of `partitions`; `deleted` gets the number of keys of each step.

        From the first step to the last, reads, commits and claims refuse the partitions as incomplete, so an
        interrupted run does no harm: the next run deletes the rest. Afterwards, commits of earlier claims are refused.
        """
        for partition in partitions:
            self._client.hincrby(tag(self._app, partition), "begun", 1)
        # A scan may miss a key that moves between nodes of a cluster: scan until no key is found.
        while self._unlink_keys(partitions, deleted):
            pass
        for partition in partitions:
            deleted(self._client.delete(tag(self._app, partition)))

    def _unlink_keys(self, partitions: Collection[int], deleted: Callable[[int], object]) -> bool:
        """Delete the keys found by a scan, apart from the partitions' own hashes; returns whether there were any."""
        marked = {tag(self._app, partition).encode() for partition in partitions}
        keys = (key for partition, key in self._keys() if partition in partitions and key not in marked)
        seen = False
        while batch := list(islice(keys, UNLINKED)):
            deleted(self._client.unlink(*batch))
            seen = True
        return seen

    def _positions(self, partition: int) -> Mapping[str, int]:
        fields: Mapping[Any, Any] = self._client.hgetall(tag(self._app, partition))
        return {name[len(_OFFSET) :].decode(): int(at) for name, at in fields.items() if name.startswith(_OFFSET)}

    def _keys(self) -> Iterator[tuple[int, bytes]]:
        """Each key with its partition; a scan may return a key twice."""
        for key in self._client.scan_iter(match=f"{{{self._app}:*", count=SCANNED):
            if match := self._key.fullmatch(key):
                yield int(match[1]), key
