"""Topics recreated or widened after a state was built: the state's offsets or keys are invalid then."""

from collections.abc import Collection, Iterable, Mapping

from streamstate.app import App
from streamstate.errors import Misconfigured
from streamstate.state.store import Origin

REBUILD = "build a new state: in its place by `streamstate reset SERVICE`, or beside it under another STREAMSTATE_NAME"
"""Advice for a state that cannot be continued."""


Origins = Mapping[str, Origin]
"""By topic."""


def require_same_topics(states: Collection[Origins], now: Origins) -> None:
    """Raise `Misconfigured` when one of `states` was built from topics other than `now`."""
    for topic, built_from in _each(states):
        if topic in now and built_from.id != now[topic].id:
            msg = f"{topic} was deleted and made anew, and the state is of the old one's records; {REBUILD}"
            raise Misconfigured(msg)
    require_same_widths(states, {topic: origin.partitions for topic, origin in now.items()})


def require_same_widths(states: Iterable[Origins], now: Mapping[str, int]) -> None:
    """Raise `Misconfigured` when the partition count of a topic in `now` differs from one of `states`."""
    for topic, built_from in _each(states):
        if built_from.partitions != now.get(topic, built_from.partitions):
            msg = (
                f"{topic} has {now[topic]} partitions and had {built_from.partitions} when the state was built: "
                "keys have moved to partitions that do not know their past; copy the records to a new topic of "
                f"{now[topic]} partitions, and build a state from it (STREAMSTATE_TOPICS, STREAMSTATE_NAME)"
            )
            raise Misconfigured(msg)


def require_copartitioned(app: App, now: Origins) -> None:
    """Raise `Misconfigured` where merged topics of a fold differ in their partition count."""
    for fold in app.folds:
        counts = {topic: now[topic].partitions for topic in fold.topics}
        if len(set(counts.values())) > 1:
            parts = " and ".join(f"{topic} has {count}" for topic, count in counts.items())
            msg = f"{app.name} merges topics that are not co-partitioned: {parts} partitions; make them equal"
            raise Misconfigured(msg)


def _each(states: Iterable[Origins]) -> Iterable[tuple[str, Origin]]:
    return (item for origins in states for item in origins.items())
