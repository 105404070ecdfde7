"""A reader of a store in memory, for servers in tests."""

from collections.abc import Mapping, Sequence

from streamstate.state.operations import Read
from streamstate.state.store import Snapshot, Store


class MemoryReader:
    """The `AsyncReads` of a store that never blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        return self._store.read(wanted)

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002, of the protocol
        return {}

    async def releases(self, of: str) -> bytes | None:  # noqa: ARG002, of the protocol
        return None

    async def close(self) -> None: ...
