"""A topic, commits and reads for the laws of the stores."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from streamstate.state.memory import MemoryStore
from streamstate.state.operations import (
    Append,
    Between,
    Fields,
    IncrementScores,
    Insert,
    Members,
    Merge,
    Newest,
    Operation,
    PushRecent,
    Put,
    Read,
    Since,
    Top,
    UpdateIndex,
    Value,
)
from streamstate.state.store import Claim, Commit, OffsetAdvance, Snapshot, Store

A, B = "10.0.0.1:8101", "10.0.0.2:8101"
T = "topic"
READS: list[Read] = [
    Value("v"),
    Fields("f"),
    Top("t", 10),
    Newest("n", 10),
    Since("l", 0, 10),
    Between("i:k", 0, 10, 10),
    Members("x", "", "", 10),
]
STEP: list[Operation] = [
    Put("v", "one"),
    Merge("f", add={"count": 2}, least={"first": 5}, most={"last": 9}),
    IncrementScores("t", {"a": 1, "b": 3}),
    PushRecent("n", {"x": 1, "y": 2}, keep=2),
    Append("l", 4, "Ä", keep=10),
    Insert("i", "k", {"later": 7, "earlier": 5}),
    UpdateIndex("x", ["b", "a", "c"], ["c"]),
]
AFTER_STEP = [
    "one",
    {"count": 2, "first": 5, "last": 9},
    [("b", 3), ("a", 1)],
    [("y", 2), ("x", 1)],
    [(4, "Ä".encode())],
    [("earlier", 5), ("later", 7)],
    ["a", "b"],
]
EMPTY: list[Any] = [None, {}, [], [], [], [], []]


def read_snapshot(store: Store, partition: int = 0, reads: Sequence[Read] = READS) -> Snapshot:
    return store.read({partition: reads})[partition]


def step(claim: Claim, operations: Sequence[Operation], expected: int | None = None, following: int = 1) -> Commit:
    return Commit(claim, [OffsetAdvance(T, expected, following)], operations)


# The store in memory, with the faults of a real store.


class FailingStore(MemoryStore):
    """A store of which the server restarts, or falls back to an earlier state."""

    def save(self) -> dict[int, Any]:
        """A copy of the current state, like the server's file or a lagging replica."""
        return deepcopy(self._partitions)

    def restart(self, saved: dict[int, Any] | None = None) -> None:
        """What a crash and restart of the server looks like from outside: nothing is lost, or all since `saved`."""
        self._server += " again"
        if saved is not None:
            self._partitions = deepcopy(saved)
