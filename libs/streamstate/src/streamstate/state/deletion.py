"""The deletion of partitions from Redis, so that a service builds them anew.

Redis does a bounded amount of work for each command: nobody waits for long.
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
"""Keys that Redis looks at, and that it lets go of, for one command."""

_OFFSET = b"offset:"


@dataclass
class Holding:
    """What is stored of a partition: the number of its keys, and the next offsets by topic."""

    keys: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)


class StateDeleter:
    """Deletes partitions of one app, whether they are whole or not."""

    def __init__(self, client: Client, app: str) -> None:
        self._client = client
        self._app = app
        self._key = re.compile(rb"\{%b:([0-9]+)\}(:.*)?" % re.escape(app.encode()), re.DOTALL)

    def holdings(self) -> dict[int, Holding]:
        """What there is, by partition."""
        seen: defaultdict[int, Holding] = defaultdict(Holding)
        for partition, _ in self._keys():
            seen[partition].keys += 1
        for partition, holding in seen.items():
            holding.positions = self._positions(partition)
        return dict(sorted(seen.items()))

    def run(self, partitions: Collection[int], deleted: Callable[[int], object] = lambda _keys: None) -> None:
        """Delete all of `partitions`; `deleted` gets the number of keys of each step.

        From the first step to the last one, reads, commits and claims refuse them as incomplete, so a run that was
        interrupted does no harm: the next one does what is left. Afterwards, commits of earlier claims are refused.
        """
        for partition in partitions:
            self._client.hincrby(tag(self._app, partition), "begun", 1)
        # A scan may miss a key that moves from one node of a cluster to another: the last one has seen none.
        while self._unlink_keys(partitions, deleted):
            pass
        for partition in partitions:
            deleted(self._client.delete(tag(self._app, partition)))

    def _unlink_keys(self, partitions: Collection[int], deleted: Callable[[int], object]) -> bool:
        """Delete the keys that a scan sees, apart from the partitions' own hashes; whether there were any."""
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
        """Each key with its partition; a scan may name one twice."""
        for key in self._client.scan_iter(match=f"{{{self._app}:*", count=SCANNED):
            if match := self._key.fullmatch(key):
                yield int(match[1]), key
