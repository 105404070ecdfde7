"""Topics that were recreated or got more partitions since a state was built: its offsets or keys are of no use then."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from streamstate.errors import Misconfigured
from streamstate.state.store import Origin, Snapshot

REBUILD = "build a new state: in its place by `streamstate reset SERVICE`, or beside it under another STREAMSTATE_NAME"
"""What to do about a state that cannot be continued."""


def require_same_topics(snapshots: Collection[Snapshot], now: Mapping[str, Origin]) -> None:
    """Raise `Misconfigured` when a state was built from other topics than there are `now`."""
    for topic, built_from in _origins(snapshots):
        if topic in now and built_from.id != now[topic].id:
            msg = f"{topic} was deleted and made anew, and the state is of the old one's records; {REBUILD}"
            raise Misconfigured(msg)
    require_same_widths(snapshots, {topic: origin.partitions for topic, origin in now.items()})


def require_same_widths(snapshots: Iterable[Snapshot], now: Mapping[str, int]) -> None:
    """Raise `Misconfigured` when a topic has another number of partitions `now` than these states know."""
    for topic, built_from in _origins(snapshots):
        if built_from.partitions != now.get(topic, built_from.partitions):
            msg = (
                f"{topic} has {now[topic]} partitions and had {built_from.partitions} when the state was built: "
                "keys have moved to partitions that do not know their past; copy the records to a new topic of "
                f"{now[topic]} partitions, and build a state from it (STREAMSTATE_TOPICS, STREAMSTATE_NAME)"
            )
            raise Misconfigured(msg)


def _origins(snapshots: Iterable[Snapshot]) -> Iterator[tuple[str, Origin]]:
    return chain.from_iterable(snapshot.origins.items() for snapshot in snapshots)
