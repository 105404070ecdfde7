"""The live graph: users x items of several kinds, an edge per play, newest last, oldest dropped.

Like GraphJet (Sharma et al., VLDB 2016), a dynamic bipartite multigraph with a temporal window, readable during
writes. Unlike GraphJet, there are no segments: a node's edges lie side by side, so a walker picks an edge with two
memory accesses.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph.ids import Ids, IdTable
from services.recommendations.graph.lists import LENGTH, Lists

MOST_EVENTS = 1 << 30  # of a window: places in a pool, 1.5 times as long, are int32
CHUNK = 1 << 12  # events of an append: bounds the reserve for new ids

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


class Bipartite(NamedTuple):
    """An immutable snapshot of a kind of the graph, for any number of threads.

    `users[u]` is (start, length): the items of user number u are `user_edges[start:start + length]`, oldest
    first; `items` and `item_edges` likewise with users. Node arrays are int32 of shape (nodes, 2).
    """

    user_names: IdTable
    item_names: IdTable
    users: Int32s
    user_edges: Int32s
    items: Int32s
    item_edges: Int32s

    def known(self, user_id: int) -> Int32s:
        """Item numbers of the user's edges, oldest first; empty for a user without any."""
        return _edges(self.users, self.user_edges, self.user_names.find(user_id))

    def listeners(self, item_id: int) -> Int32s:
        """User numbers of the item's edges, oldest first; empty for an item without any."""
        return _edges(self.items, self.item_edges, self.item_names.find(item_id))

    def at(self, user_id: int) -> Int32s:
        """The number of a user with edges, as an array of one; empty for a user without any."""
        number = self.user_names.find(user_id)
        return np.full(min(1, len(_edges(self.users, self.user_edges, number))), number, np.int32)

    def numbers(self, item_ids: Collection[int]) -> Int32s:
        """The numbers of the items among `item_ids` that the graph has."""
        numbers = self.item_names.find_all(np.fromiter(item_ids, np.int64, len(item_ids)))
        return numbers[(numbers >= 0) & (numbers < len(self.items))]


class Graph:
    """Users x items of `kinds`, over the newest `window` events. A single thread writes; readers need no lock.

    A reader takes an immutable `Bipartite` by `view`, for any duration. Views taken after the return of `append` have
    all appended events.
    """

    def __init__(self, kinds: Sequence[str], window: int) -> None:
        self.kinds, self.window = tuple(kinds), window
        self._user_ids, self._item_ids = Ids(), [Ids() for _ in kinds]
        self._users = Lists(self._user_ids.capacity, len(self.kinds))
        self._items = [Lists(ids.capacity, 1) for ids in self._item_ids]
        self._log = np.empty(window, np.int32)  # the events' users in a ring: the next user to lose the oldest edge
        self._first = self._events = 0
        self._publish()

    def __len__(self) -> int:
        """Events in the graph; each is an edge per kind."""
        return self._events

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, slack and the published copies included."""
        ids = sum(ids.nbytes for ids in (self._user_ids, *self._item_ids))
        lists = sum(lists.nbytes for lists in (self._users, *self._items))
        log = self._events * self._log.itemsize  # the rest was never touched, so it takes no memory
        copies = self._views[0].users.nbytes + sum(view.items.nbytes for view in self._views)
        return ids + lists + log + copies

    def view(self, kind: str) -> Bipartite:
        """The graph of a kind after the last `append`. Raises KeyError for an unknown kind."""
        return self.views()[kind]

    def views(self) -> Mapping[str, Bipartite]:
        """The graphs of all kinds after one and the same `append`, so that a user has the same number in all."""
        return dict(zip(self.kinds, self._views, strict=True))

    def append(self, events: Int64s) -> None:
        """Add events, oldest first: int64 of shape (n, 1 + kinds), the user's id and an item id per kind.

        Ends with a publication, a copy of 8 bytes per node (about 1 ms for 500,000 nodes): prefer few calls with many
        events.
        """
        newest = events[-self.window :]
        for at in range(0, len(newest), CHUNK):
            self._take(newest[at : at + CHUNK])
        self._publish()

    def _take(self, events: Int64s) -> None:
        users = _numbers(self._user_ids, self._users, events[:, 0])
        sides = zip(self._item_ids, self._items, events.T[1:], strict=True)
        items = np.stack([_numbers(ids, lists, names) for ids, lists, names in sides])
        self._drop(self._events + len(events) - self.window)
        self._users.push(users, items)
        for lists, numbers in zip(self._items, items, strict=True):
            lists.push(numbers, users[np.newaxis])
        self._log[(self._first + self._events + np.arange(len(users))) % self.window] = users
        self._events += len(users)

    def _drop(self, count: int) -> None:
        """Drop the oldest events: the oldest edge of all is the first of its user's and of its item's."""
        if count <= 0:
            return
        users = self._log[(self._first + np.arange(count)) % self.window]
        for lists, items in zip(self._items, self._users.drop(users), strict=True):
            lists.drop(items)
        self._first = (self._first + count) % self.window
        self._events -= count

    def _publish(self) -> None:
        names, users = self._user_ids.names, self._users.nodes[: len(self._user_ids)].copy()
        sides = zip(self._users.pool, self._item_ids, self._items, strict=True)
        self._views = tuple(
            Bipartite(names, ids.names, users, edges, lists.nodes[: len(ids)].copy(), lists.pool[0])
            for edges, ids, lists in sides
        )


def _edges(nodes: Int32s, pool: Int32s, node: int) -> Int32s:
    """The edges of a node; empty for a number without edges."""
    start, length = nodes[node] if 0 <= node < len(nodes) else (0, 0)
    return pool[start : start + length]


def _numbers(ids: Ids, lists: Lists, names: Int64s) -> Int32s:
    """Numbers of external ids, with a list for each; ids without edges make room when there is none."""
    if ids.room() < len(names):
        ids.make_room(len(names), lists.nodes[:, LENGTH] > 0)
        lists.reserve(ids.capacity)
    return ids.add(np.ascontiguousarray(names))
