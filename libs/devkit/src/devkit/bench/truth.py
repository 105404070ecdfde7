"""The exact profiles, counted from the events themselves, held against every user's state."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from devkit import DevkitError
from devkit.records import Event
from streamstate.app import App, View
from streamstate.keys import LONG, partition_of
from streamstate.state import Store


class Truth:
    """Counts of the events that were sent. All must be usable."""

    def __init__(self) -> None:
        self._events: Counter[int] = Counter()
        self._plays: dict[str, defaultdict[int, Counter[int]]] = {
            field: defaultdict(Counter) for field in ("artistId", "albumId", "trackId")
        }
        self._times: defaultdict[int, list[int]] = defaultdict(list)

    @property
    def users(self) -> int:
        return len(self._events)

    @property
    def pairs(self) -> int:
        """Distinct (user, item) over the three kinds."""
        return sum(len(items) for plays in self._plays.values() for items in plays.values())

    def counting(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, each counted as it is taken."""
        for key, value in events:
            event: dict[str, int] = msgspec.json.decode(value or b"")
            user = event["userId"]
            self._events[user] += 1
            self._times[user].append(event["timestamp"])
            for field, plays in self._plays.items():
                plays[user][event[field]] += 1
            yield key, value

    def check(self, app: App, store: Store, partitions: int) -> None:
        """Raises `DevkitError` naming how many users' profiles in `store` differ from the truth."""
        view = app.view("metrics")
        wrong = sum(self._wrong(view, store, users, p) for p, users in self._by_partition(partitions).items())
        if wrong:
            msg = f"{wrong} of {self.users} profiles differ from a recount of the events; do not trust the figures"
            raise DevkitError(msg)

    def _by_partition(self, partitions: int) -> Mapping[int, list[int]]:
        places: defaultdict[int, list[int]] = defaultdict(list)
        for user in self._events:
            places[partition_of(LONG.encode(user), partitions)].append(user)
        return places

    def _wrong(self, view: View[Any], store: Store, users: list[int], partition: int) -> int:
        reads = {user: view.reads(user) for user in users}
        values = iter(store.read({partition: [read for some in reads.values() for read in some]})[partition].values)
        return sum(not self._same(user, [next(values) for _ in some]) for user, some in reads.items())

    def _same(self, user: int, values: list[Any]) -> bool:
        fields, *charts = values
        times = self._times[user]
        if fields != {"count": self._events[user], "first": min(times), "last": max(times)}:
            return False
        return all(
            [(int(member[1:]), count) for member, count in chart]
            == sorted(plays[user].items(), key=lambda item: (-item[1], item[0]))[:10]
            for chart, plays in zip(charts, self._plays.values(), strict=True)
        )
