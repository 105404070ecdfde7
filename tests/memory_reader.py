"""A reader of a store in memory, for servers in tests."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from streamstate.state.operations import Read
from streamstate.state.store import Snapshot, Store


class MemoryReader:
    """The `AsyncReads` of a store that never blocks.

    size: of each snapshot, as if Redis had sent so many bytes.
    """

    def __init__(self, store: Store) -> None:
        self.size = 0
        self._store = store

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        snapshots = self._store.read(wanted)
        return {partition: replace(snapshot, size=self.size) for partition, snapshot in snapshots.items()}

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002, of the protocol
        return {}

    async def releases(self, of: str) -> bytes | None:  # noqa: ARG002, of the protocol
        return None

    async def close(self) -> None: ...
